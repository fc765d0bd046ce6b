"""Pairs the ops and tensors of two runs."""
