"""Operators: their names in PyTorch and MindSpore, and patterns that select ops by name."""
