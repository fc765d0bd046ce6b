"""Finds where the NaN and Inf of a step were made on this rank."""
