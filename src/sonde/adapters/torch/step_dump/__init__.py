"""Dumps that keep steps instead of tensors; the tensors are computed when the dump is read."""
