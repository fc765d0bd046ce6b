"""Rules about values that are not finite, or lost in rounding."""
