"""Records steps while the program runs."""
