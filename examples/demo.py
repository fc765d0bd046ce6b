"""``make demo``: a training that turns nan, and what Sonde says about it.

Trains ``examples/rainfall.py``, unchanged, under ``sonde run --overflow``, then shows the op that
made the first nan, its inputs and its source line, all from the dump it left.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DUMP = HERE.parent / "demo_out"


def _run(*arguments: str) -> None:
    shown = " ".join(Path(word).name if word == str(DUMP) else word for word in arguments)
    print(f"\n$ sonde {shown}", flush=True)
    done = subprocess.run([sys.executable, "-m", "sonde", *arguments], cwd=HERE.parent)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    shutil.rmtree(DUMP, ignore_errors=True)
    _run("run", "--overflow", "--dump-to", str(DUMP), "examples/rainfall.py")
    _run("show", str(DUMP))
    _run("show", str(DUMP), "--op", "log", "--step", "7")


if __name__ == "__main__":
    main()
