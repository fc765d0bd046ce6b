"""Collects the evidence of a diagnosis from a PyTorch training, one file per kind of evidence."""
