"""Turns recorded events into times of known ops, tables and overviews."""
