"""Reads one checkpoint format per file."""
