"""Processes that work for us and may die at any time: pools, what crosses their borders, their scratch folders.

Nothing here knows what the processes do.
"""
