"""Reads, compares and draws loss curves."""
