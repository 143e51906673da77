"""What a study says to people: which parameters matter, and bar charts.

Nothing here runs a kernel or changes a store.
"""
