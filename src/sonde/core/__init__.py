"""Values and pure functions; numpy and the standard library only."""
