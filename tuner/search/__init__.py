"""The search: candidates and their features, models of the results, and the samplers that propose the next ones.

Nothing here knows of kernels, devices or stores: a candidate is a row of numbers.
"""
