"""Reads, pairs, compares, checks and converts weights of checkpoints."""
