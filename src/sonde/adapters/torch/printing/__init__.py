"""Implements sonde.print, in eager and in compiled code."""
