"""Rules about ranks that do different things."""
