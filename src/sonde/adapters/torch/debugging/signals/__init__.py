"""Measures signals of a training: norms of gradients and weights, and how far updates go."""
