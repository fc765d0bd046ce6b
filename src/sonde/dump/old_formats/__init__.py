"""Dump formats of earlier versions of MindSpore, which ``sonde convert`` reads."""
