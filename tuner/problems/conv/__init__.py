"""Convolution: the layers of the course (ECE 408, UIUC), their networks, and the Fashion-MNIST images they work on.

Nothing outside this folder knows what a channel or an image is.
"""
