"""``make demo``: a training whose loss becomes NaN, and how Sonde finds the cause.

Runs ``examples/rainfall.py``, unchanged, under ``sonde run --overflow``, then shows the op that
produced the first NaN, with its inputs and its source line, from the dump. After that the same
training runs under the debugger and pauses at that op. In a terminal it stays paused, so that you
can open the page; otherwise what the page would show is printed, and the training ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DUMP = HERE.parent / "demo_out"
SCRIPT = "examples/rainfall.py"
DEBUG = ("debug", "--no-pause", "--watch", "examples/watch_overflow.json")


def _show(*arguments: str) -> list[str]:
    """Print the command as a user would type it; the command itself."""
    words = [Path(word).name if word == str(DUMP) else word for word in arguments]
    print(f"\n$ sonde {' '.join(words)}", flush=True)
    return [sys.executable, "-m", "sonde", *arguments]


def _run(*arguments: str, allowed: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run(_show(*arguments), cwd=HERE.parent)
    if done.returncode not in allowed:
        sys.exit(done.returncode)


def _find_in_dump() -> None:
    shutil.rmtree(DUMP, ignore_errors=True)
    _run("run", "--overflow", "--dump-to", str(DUMP), SCRIPT)
    _run("show", str(DUMP))
    _run("show", str(DUMP), "--op", "log", "--step", "7")


def _stop_in_debugger() -> None:
    """Run the training until the watchpoint pauses it, then print what the page shows."""
    *command, script = _show(*DEBUG, SCRIPT)
    command += ["--no-open", "--port", "0", "--debugger-port", "0", "--exit", script]
    training = subprocess.Popen(command, cwd=HERE.parent, stderr=subprocess.PIPE, text=True)
    assert training.stderr is not None
    address = ""
    for line in training.stderr:
        print(line, end="", file=sys.stderr, flush=True)
        address = address or line.partition("the page is at ")[2].strip()
        if line.startswith("sonde: paused: "):
            break
    else:
        sys.exit(training.wait() or 1)
    server = ("ctl", "--server", address.partition("?")[0])  # It finds the token by itself.
    _run(*server, "status")
    _run(*server, "hits", allowed=(0, 1))
    _run(*server, "tensor", "log-op0")
    _run(*server, "terminate", allowed=(0, 3))
    print(training.stderr.read(), end="", file=sys.stderr)
    training.wait()
    print(f"\nThis is what the page at {address} showed while the training was paused.")


def main() -> None:
    _find_in_dump()
    if sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI"):
        print("\nThe debugger stops the same training at that op. Ctrl-C ends it.")
        subprocess.run(_show(*DEBUG, SCRIPT), cwd=HERE.parent)
    else:
        _stop_in_debugger()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
