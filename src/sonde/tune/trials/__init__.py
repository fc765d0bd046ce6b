"""Runs trials, follows their output and decides which values to try next."""
