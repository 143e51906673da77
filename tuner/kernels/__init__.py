"""Kernel templates and what follows from one: parameters, constraints, the space of configurations, rendered source.

Nothing here compiles or runs a kernel; users' templates run in processes of their own (``hosting``).
"""
