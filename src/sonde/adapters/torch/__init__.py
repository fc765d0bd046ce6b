"""Adapts PyTorch: shows a session the ops, graphs and steps of a training."""
