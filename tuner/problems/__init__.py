"""What is computed: the kinds of problem, each with its sizes, its arguments and its reference.

Nothing here knows a device, a study or a template.
"""
