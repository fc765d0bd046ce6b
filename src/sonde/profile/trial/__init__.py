"""Runs short variants of a program, alternating with the program itself, to measure their gain."""
