"""Encodes and decodes graphs: the .pb and .ir files, execution orders, source lines."""
