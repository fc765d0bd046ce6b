"""Diagnoses scripts with known bugs and healthy ones, and prints recall and false alarms.

    python benchmarks/diagnosis.py FOLDER

``FOLDER/cases/ID.json`` names a script, its ``kind`` and the accepted places (``where``); kind
``none`` is healthy. Scripts in ``FOLDER/controls`` are healthy. A kind counts if a finding has it
(``future-leak`` stands for both errors of causal masks), a place if the finding names an accepted
one exactly, a line if that is a file and line. A finding that is established or supported is a
false alarm on a healthy script. Scripts that call ``init_process_group`` run on two ranks.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 300
JOBS = 2


@dataclass(frozen=True)
class Case:
    name: str
    script: Path
    kind: str
    where: tuple[str, ...] = ()


def cases_in(folder: Path) -> list[Case]:
    found = []
    for file in sorted((folder / "cases").glob("*.json")):
        case = json.loads(file.read_text())
        script = file.parent / case["script"]
        found.append(Case(case["id"], script, case["kind"], tuple(case["where"])))
    controls = sorted((folder / "controls").glob("*.py"))
    return [*found, *(Case(file.stem, file, "none") for file in controls)]


def findings_of(case: Case) -> list[dict[str, Any]] | None:
    """The findings of ``sonde diagnose --json``; None if it printed none."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(case.script, directory)
        words = ["-m", "sonde", "diagnose", "--json", case.script.name]
        if "init_process_group" in case.script.read_text():
            launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
            words = [*launcher, *words]
        try:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=directory,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
            )
            found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        except (subprocess.TimeoutExpired, ValueError, KeyError):
            return None
    return found


def matches(kind: str, wanted: str) -> bool:
    is_mask = wanted in ("causal-mask-missing", "causal-mask-inverted")
    return kind == wanted or (kind == "future-leak" and is_mask)


def main() -> None:
    cases = cases_in(Path(sys.argv[1]))
    with ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(findings_of, cases))
    bugs = kinds = places = lines = healthy = alarms = failed = 0
    print("| script | bug | kind | place | line | findings |\n|---|---|---|---|---|---|")
    for case, found in zip(cases, results, strict=True):
        listed = ", ".join(f"{each['kind']} ({each['status']})" for each in found or [])
        shown = "no result" if found is None else listed or "none"
        if case.kind == "none":
            is_alarm = any(each["status"] != "hypothesis" for each in found or [])
            healthy += 1
            alarms += is_alarm
            failed += found is None
            verdict = "FAILED" if found is None else "ALARM" if is_alarm else "ok"
            print(f"| {case.name} | healthy | {verdict} | | | {shown} |")
            continue
        right = [each for each in found or [] if matches(each["kind"], case.kind)]
        named = [text for each in right for text in each["where"] if text in case.where]
        has_line = any(".py:" in text for text in named)
        bugs, kinds = bugs + 1, kinds + bool(right)
        places, lines = places + bool(named), lines + has_line
        marks = " | ".join("yes" if each else "no" for each in (right, named, has_line))
        print(f"| {case.name} | {case.kind} | {marks} | {shown} |")
    print(
        f"\nkind {kinds} of {bugs}, place {places}, line {lines}; "
        f"false alarms {alarms} of {healthy}; healthy scripts without a result {failed}"
    )


if __name__ == "__main__":
    main()
