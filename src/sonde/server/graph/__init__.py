"""Prepares graphs for the page: index, levels, search, source code."""
