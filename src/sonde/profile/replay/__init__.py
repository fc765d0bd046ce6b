"""Does some of the program's work again, after the program, in two ways, to measure a gain."""
