"""Compares two runs, op by op, from their dumps."""
