"""Runs healthy trainings under the recommended watchpoints, and prints which ones alarm.

    python benchmarks/watchpoints.py FOLDER [FOLDER...]

Every ``*.py`` in ``FOLDER/controls`` is a healthy training, and so are the cases of kind ``none``
in ``FOLDER/cases``. A hit is a false alarm; the watchpoints report and do not pause. Scripts that
call ``init_process_group`` run as a group of one rank.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TIMEOUT_SECONDS = 600
ONE_RANK = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def controls_in(folder: Path) -> Iterator[Path]:
    for file in sorted((folder / "cases").glob("*.json")):
        case = json.loads(file.read_text())
        if case["kind"] == "none":
            yield file.parent / case["script"]
    yield from sorted((folder / "controls").glob("*.py"))


def run_one(script: str) -> None:
    """Train in this process; print the hits as JSON in the last line."""
    from msgspec import structs
    from tests.debugger.driving import driven
    from tests.debugger.hub import Hub

    from sonde.debugger.initial_watchpoints import starting_set

    specs = [structs.replace(each, break_after=0) for each in starting_set((), recommended=True)]
    names = {each.id: each.name for each in specs}
    hub = Hub(paused=False, watchpoints=tuple(specs))
    _, rank = driven(
        lambda: runpy.run_path(script, run_name="__main__"), lambda rank: None, hub=hub
    )
    # A hit that turns out to be no fault is sent again with the same number, as undecided.
    last = {each.number: each for each in rank.hits}
    hits = [each for each in last.values() if each.verdict == "hit"]
    found = [(names[each.watchpoint], each.step, each.op) for each in hits]
    print("\n" + json.dumps(found))


def alarms_of(script: Path) -> list[tuple[str, int, str]] | None:
    """The hits as watchpoint, step and op; None if the training failed."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    if "init_process_group" in script.read_text():
        environment |= ONE_RANK
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(script.resolve())],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    found: list[tuple[str, int, str]] = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    return found


def main() -> None:
    if sys.argv[1] == "--one":
        run_one(sys.argv[2])
        return
    alarming = failed = total = 0
    print("| training | alarms | first |\n|---|---|---|")
    for script in (each for folder in sys.argv[1:] for each in controls_in(Path(folder))):
        found = alarms_of(script)
        total += 1
        failed += found is None
        alarming += bool(found)
        counted = Counter(name for name, _, _ in found or [])
        listed = ", ".join(f"{name}: {count}" for name, count in counted.items())
        first = f"step {found[0][1]} {found[0][2]}" if found else ""
        shown = "FAILED" if found is None else listed or "none"
        print(f"| {script.stem} | {shown} | {first} |", flush=True)
    print(f"\nalarms on {alarming} of {total} healthy trainings; without a result {failed}")


if __name__ == "__main__":
    main()
