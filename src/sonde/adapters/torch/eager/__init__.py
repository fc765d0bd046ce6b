"""Observes the ops that PyTorch runs eagerly: learns the graph of a step once, then matches it."""
