"""Where the time of a training goes, and what would make it faster.

A program is run as it is. In the steps of a window `recorder` lets torch's profiler look; after
the program, `analysis` turns what was seen into a `document.Profile`, `rules` into findings with a
measured gain. `report` shows it, `trial` runs short variants of the same program.
"""
