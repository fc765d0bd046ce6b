"""Removes randomness from a training and reports what cannot be removed."""
