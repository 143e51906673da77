"""Gaussian processes over configurations: kernel, likelihood, posterior, and the expected improvement.

Nothing here knows of samplers or of searches: rows of codes and values go in, beliefs come out.
"""
