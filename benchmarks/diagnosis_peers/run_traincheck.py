"""Runs a script under TrainCheck: collects a trace, and checks it against learned invariants.

    python run_traincheck.py SCRIPT ALARMS.json
    python run_traincheck.py --learn

The invariants are learned once (``--learn``), from the healthy training in ``reference.py``, and
kept in the file that ``TRAINCHECK_INVARIANTS`` names; learning them takes longer than a trace. An
alarm is an invariant that is violated. Its text is read for the causes that the name of the API is
enough to see.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from attaching import Alarm, report

KINDS = {
    "zero_grad": ("missing-zero-grad", "zero-grad-before-step"),
    "clip_grad_norm_": ("clip-on-one-rank",),
    "requires_grad": ("frozen-parameters", "detached-graph"),
}
"""The causes that a violated invariant about an API or attribute names."""
RESULTS = "traincheck_results"
_BIN = Path(sys.executable).parent


def run(command: str, *words: str) -> None:
    """Run a command of TrainCheck; raises if it fails."""
    subprocess.run([str(_BIN / command), *words], check=True, stdout=sys.stderr)


def trace(script: Path, folder: str) -> str:
    """Collect a trace of ``script``; returns its folder."""
    run("traincheck-collect", "--pyscript", str(script), "--output-dir", folder)
    return folder


def invariants() -> str:
    """The file of invariants, learned now if it is not there."""
    file = os.environ["TRAINCHECK_INVARIANTS"]
    if not Path(file).exists():
        shutil.copy(Path(__file__).with_name("reference.py"), ".")  # It writes beside the script.
        reference = trace(Path("reference.py").resolve(), "reference_trace")
        part = f"{file}.part"
        run("traincheck-infer", "--trace-folders", reference, "--output", part)
        os.replace(part, file)
    return file


def violated(results: Path) -> list[Alarm]:
    """The alarms in the results of ``traincheck-check``, one for each violated invariant."""
    alarms: list[Alarm] = []
    for file in sorted(results.rglob("violations_summary.json")):
        for each in json.loads(file.read_text())["violations"]:
            text = json.dumps(each)
            kinds = [kind for name, listed in KINDS.items() if name in text for kind in listed]
            names = [value for value in each.values() if isinstance(value, str)]
            alarms.append({"rule": "invariant", "text": text, "kinds": kinds, "names": names})
    return alarms


def main() -> None:
    if sys.argv[1] == "--learn":
        invariants()
        return
    script, output = Path(sys.argv[1]).resolve(), sys.argv[2]
    try:
        known = invariants()
        folder = trace(script, "script_trace")
        words = ("--trace-folders", folder, "--invariants", known, "--output-dir", RESULTS)
        run("traincheck-check", *words, "--no-html-report")
    except (OSError, subprocess.CalledProcessError) as error:
        report([], output, f"{type(error).__name__}: {error}")
        return
    report(violated(Path(RESULTS)), output)


if __name__ == "__main__":
    main()
