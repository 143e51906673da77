"""Reports of a study: which parameters matter, and charts as text and as pictures.

Nothing here runs a kernel or changes a store.
"""
