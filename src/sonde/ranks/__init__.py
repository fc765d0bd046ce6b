"""Compares the ranks of one training: what each reports, and the checks over all of them."""
