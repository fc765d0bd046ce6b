"""``python -m sonde.debugger.server_guard SIGNAL COMMAND ...``: ``sonde COMMAND ...``, which gets
SIGNAL, a number, once nobody holds the other end of standard input any more.

However the process that started a server ends, by a signal that nobody can catch, too, its server
hears of it and does not stay behind.
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
