"""The same work done again, after the program, in two ways: what a change would really bring."""
