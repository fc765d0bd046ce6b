"""Keeps and finds the values that the debugger shows: caches, lookups, slices, answers."""
