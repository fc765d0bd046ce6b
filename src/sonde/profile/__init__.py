"""Finds where the time of a training goes, and what would make it faster.

`record` runs torch's profiler in some steps of an unmodified program. After the program, `analysis`
turns the recording into a `document.Profile`, and `rules` into findings with a measured gain.
`report` shows the profile; `trial` runs short variants of the program.
"""
