"""Short variants of the same program, run in turns with it: what a change really brings."""
