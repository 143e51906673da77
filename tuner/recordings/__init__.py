"""Recorded spaces: every configuration of a kernel with its measured time, in files that searches are replayed on.

Reading and writing them, replaying searches, and the scores of these.
"""
