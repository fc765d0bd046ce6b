"""Judges what a training computes: conditions, watchpoints, and where NaN and Inf began."""
