"""Runs ``sonde COMMAND ...`` and sends it SIGNAL when standard input is closed:
``python -m sonde.debugger.launch.guard SIGNAL COMMAND ...``, SIGNAL a number.

The process that starts a server holds the other end of standard input. However that process ends,
even by SIGKILL, its server gets the signal and does not stay behind.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


def _signal_at_end_of_input(number: int) -> None:
    while os.read(sys.stdin.fileno(), 1 << 10):
        pass
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    last = int(sys.argv[1])
    threading.Thread(target=_signal_at_end_of_input, args=(last,), daemon=True).start()
    sys.argv = ["sonde", *sys.argv[2:]]
    runpy.run_module("sonde", run_name="__main__")
