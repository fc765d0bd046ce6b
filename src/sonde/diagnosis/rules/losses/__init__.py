"""Rules about what the loss is given."""
