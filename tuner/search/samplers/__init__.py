"""Samplers: what proposes the next configurations to evaluate, and learns from their results.

All keep the contract in ``base.py`` and are constructed in ``factory.py``; a sampler's parts are values or models of
their own, none of which knows the sampler.
"""
