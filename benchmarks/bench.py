"""Runs the benchmarks behind README's Performance section, one table for each topic.

    python benchmarks/bench.py [--only TOPIC ...] [--msprobe PYTHON]

With fewer repeats than the scripts have by themselves, so that all take less than fifteen minutes
on two quiet cores. Each script says what its table means and takes more repeats. ``--msprobe``
names the Python of an environment that has ``mindstudio-probe`` and torch: it is measured beside.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Topic:
    """A table: the script that prints it, and its options. ``has_peer``: msprobe can be beside."""

    title: str
    script: str
    options: tuple[str, ...] = ()
    has_peer: bool = False


TOPICS = {
    "overhead": Topic(
        "Observing, beside torch's anomaly mode and DebugMode", "overhead", ("--repeats", "3"), True
    ),
    "first": Topic("The steps in which ops are learned", "first_step", ("--repeats", "3")),
    "debugger": Topic(
        "Watchpoints of the debugger", "debugger", ("--nets", "gpt", "--repeats", "4")
    ),
    "compiled": Topic(
        "Compiled code",
        "compiled",
        ("--nets", "gpt", "--repeats", "3", "--compilations", "0"),
    ),
    "guard": Topic("The guard", "guard", ("--nets", "gpt", "--repeats", "3"), True),
    "steps": Topic("Captured steps", "step_dump", ("--nets", "gpt", "--repeats", "2")),
    "writer": Topic("The writer of dumps", "writer", ("--repeats", "2")),
    "kernel": Topic("The kernel of statistics", "kernel", ("--repeats", "3")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=list(TOPICS), default=list(TOPICS))
    parser.add_argument("--msprobe", metavar="PYTHON", help="a Python that has mindstudio-probe")
    options = parser.parse_args()
    began = time.perf_counter()
    for name in options.only:
        topic = TOPICS[name]
        peer = ["--msprobe", options.msprobe] if options.msprobe and topic.has_peer else []
        command = [f"benchmarks/{topic.script}.py", *topic.options, *peer]
        print(f"\n## {topic.title}\n\n$ python {' '.join(command)}", flush=True)
        start = time.perf_counter()
        script = str(_HERE / f"{topic.script}.py")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", script, *topic.options, *peer],
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            sys.exit(f"bench: {topic.script}.py failed with exit code {done.returncode}")
        print(f"({time.perf_counter() - start:.0f} s)", flush=True)
    print(f"\nall of it: {(time.perf_counter() - began) / 60:.1f} min")


if __name__ == "__main__":
    main()
