"""When a step ends, its number, and what is said of steps that never end or always differ."""
