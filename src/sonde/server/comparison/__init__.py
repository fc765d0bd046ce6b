"""Compares two dumps in the background and pages through the result."""
