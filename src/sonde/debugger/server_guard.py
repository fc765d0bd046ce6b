"""``python -m sonde.debugger.server_guard COMMAND ...``: ``sonde COMMAND ...`` as long as somebody
holds the other end of standard input.

However the process that started a server ends, by a signal that nobody can catch, too, its server
does not stay behind.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1 << 10):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.argv = ["sonde", *sys.argv[1:]]
    runpy.run_module("sonde", run_name="__main__")
