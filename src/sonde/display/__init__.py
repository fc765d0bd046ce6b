"""Tensors as small pieces of HTML, for notebooks."""
