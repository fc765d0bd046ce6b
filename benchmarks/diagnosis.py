"""Diagnoses scripts with known bugs and healthy ones, and prints recall and false alarms.

    python benchmarks/diagnosis.py [FOLDER ...] [--beside torch_audit ...] [--only T01 ...]

``FOLDER/cases/ID.json`` names a script, its ``kind`` and the accepted places (``where``); kind
``none`` is healthy. Scripts in ``FOLDER/controls`` are healthy. Without a folder, those of
``benchmarks/diagnosis_variants`` are run. A kind counts if a finding has it (``future-leak`` stands
for both errors of causal masks), a place if the finding names an accepted one exactly, a line if
that is a file and line. A finding that is established or supported is a false alarm on a healthy
script. Scripts that call ``init_process_group`` run on two ranks.

``--beside`` runs other tools on the same scripts and prints one table with all of them:
``detect_anomaly``, ``torch_audit``, ``msprobe_monitor``. Install those you name (torch-audit,
mindstudio-probe) beside Sonde; `diagnosis_peers` says how each is run, and which of its rules
names which kinds. Scripts of Lightning and accelerate need these.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diagnosis_peers.forked import Forked

TIMEOUT_SECONDS = 300
HERE = Path(__file__).resolve().parent
RUNNERS = HERE / "diagnosis_peers"
IMPORTED = {
    "sonde": (
        *("torch", "torch.distributed", "transformers", "sonde.cli.main"),
        "sonde.adapters.torch.diagnosis.session",
    ),
    "detect_anomaly": ("torch", "torch.distributed"),
    "torch_audit": ("torch", "torch.distributed", "torch_audit"),
    "msprobe_monitor": ("torch", "torch.distributed", "msprobe.pytorch"),
}
"""What the process of each tool imports before it runs scripts."""
PEERS = tuple(name for name in IMPORTED if name != "sonde")


@dataclass(frozen=True)
class Case:
    name: str
    script: Path
    kind: str
    where: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return self.kind == "none"


@dataclass(frozen=True)
class Verdict:
    """What a tool said of a script; ``failure`` is why it said nothing."""

    case: Case
    is_alarm: bool = False
    has_kind: bool = False
    has_place: bool = False
    has_line: bool = False
    listed: str = ""
    failure: str = ""

    @property
    def text(self) -> str:
        if self.failure:
            return "no result"
        if self.case.is_healthy:
            return "ALARM" if self.is_alarm else "quiet"
        said = [name for name, has in (("cause", self.has_kind), ("place", self.has_place)) if has]
        return " + ".join(said) or ("alarm" if self.is_alarm else "-")


@dataclass
class Column:
    """All verdicts of one tool."""

    name: str
    verdicts: list[Verdict] = field(default_factory=list)

    def sums(self) -> str:
        bugs = [each for each in self.verdicts if not each.case.is_healthy]
        healthy = [each for each in self.verdicts if each.case.is_healthy]
        failed = sum(bool(each.failure) for each in self.verdicts)
        return (
            f"{self.name}: alarm {sum(each.is_alarm or each.has_kind for each in bugs)}, "
            f"cause {sum(each.has_kind for each in bugs)}, "
            f"place {sum(each.has_place for each in bugs)}, "
            f"line {sum(each.has_line for each in bugs)} of {len(bugs)}; "
            f"false alarms {sum(each.is_alarm for each in healthy)} of {len(healthy)}; "
            f"without a result {failed}"
        )


def cases_in(folder: Path) -> list[Case]:
    found = []
    for file in sorted((folder / "cases").glob("*.json")):
        case = json.loads(file.read_text())
        script = file.parent / case["script"]
        found.append(Case(case["id"], script, case["kind"], tuple(case["where"])))
    controls = sorted((folder / "controls").glob("*.py"))
    return [*found, *(Case(file.stem, file, "none") for file in controls)]


def run_words(server: Forked, case: Case, words: list[str], directory: str) -> str:
    """Run a program in the directory, on two ranks if the script needs them; returns its output."""
    text = case.script.read_text()
    if "init_process_group" not in text and "num_workers" not in text:
        server.run(words, directory, TIMEOUT_SECONDS)
        return (Path(directory) / "stdout").read_text()
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launched = [*launcher, *words] if "init_process_group" in text else words
    done = subprocess.run(
        [sys.executable, *launched],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    return done.stdout


def diagnosed(server: Forked, case: Case, directory: str) -> Verdict:
    """The verdict of ``sonde diagnose``."""
    words = ["-m", "sonde", "diagnose", "--json", case.script.name]
    found: list[dict[str, Any]] = json.loads(run_words(server, case, words, directory))["findings"]
    alarms = [
        {"rule": each["kind"], "kinds": [each["kind"]], "names": each["where"]} for each in found
    ]
    listed = ", ".join(f"{each['kind']} ({each['status']})" for each in found) or "none"
    is_alarm = any(each["status"] != "hypothesis" for each in found)
    return judged(case, alarms, listed, is_alarm, with_other_places=False)


def beside(peer: str, server: Forked, case: Case, directory: str) -> Verdict:
    """The verdict of another tool."""
    output = Path(directory) / "alarms.json"
    words = [str(RUNNERS / f"run_{peer}.py"), case.script.name, str(output)]
    run_words(server, case, words, directory)
    document = json.loads(output.read_text())
    if document["failure"]:
        return Verdict(case, failure=document["failure"])
    alarms = document["alarms"]
    listed = ", ".join(dict.fromkeys(each["rule"] for each in alarms)) or "none"
    is_alarm = any(each.get("is_alarm", True) for each in alarms)
    return judged(case, alarms, listed, is_alarm, with_other_places=True)


def judged(
    case: Case,
    alarms: list[dict[str, Any]],
    listed: str,
    is_alarm: bool,
    *,
    with_other_places: bool,
) -> Verdict:
    """Score alarms. Sonde must name the place in the finding with the right kind; other tools may
    name it in any alarm."""
    right = [each for each in alarms if any(matches(kind, case.kind) for kind in each["kinds"])]
    placing = alarms if with_other_places else right
    named = [name for each in placing for name in each["names"] if name in case.where]
    has_line = any(".py:" in name for name in named)
    return Verdict(case, is_alarm, bool(right), bool(named), has_line, listed)


def matches(kind: str, wanted: str) -> bool:
    is_mask = wanted in ("causal-mask-missing", "causal-mask-inverted")
    return kind == wanted or (kind == "future-leak" and is_mask)


def verdict_of(name: str, server: Forked, case: Case) -> Verdict:
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(case.script, directory)
        try:
            if name == "sonde":
                return diagnosed(server, case, directory)
            return beside(name, server, case, directory)
        except (subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
            return Verdict(case, failure=f"{type(error).__name__}: {error}")


def print_row(row: list[Verdict]) -> None:
    case, first = row[0].case, row[0]
    kind = "healthy" if case.is_healthy else case.kind
    if len(row) > 1:
        texts = " | ".join(each.text for each in row)
        print(f"| {case.name} | {kind} | {texts} |", flush=True)
        return
    marks = ["yes" if each else "no" for each in (first.has_kind, first.has_place, first.has_line)]
    if case.is_healthy or first.failure:
        marks = ["ok" if first.text == "quiet" else first.text, "", ""]
    print(f"| {case.name} | {kind} | {' | '.join(marks)} | {first.failure or first.listed} |")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[HERE / "diagnosis_variants"])
    parser.add_argument("--beside", nargs="+", choices=PEERS, default=[], metavar="TOOL")
    parser.add_argument("--only", nargs="+", default=[], help="ids or names of scripts")
    options = parser.parse_args()
    columns = [Column(name) for name in ("sonde", *options.beside)]
    if options.beside:
        print("| script | bug | " + " | ".join(each.name for each in columns) + " |")
        print("|---|---|" + "---|" * len(columns))
    else:
        print("| script | bug | kind | place | line | findings |\n|---|---|---|---|---|---|")
    servers = [Forked(sys.executable, IMPORTED[column.name]) for column in columns]
    for folder in options.folders:
        for case in cases_in(folder):
            if options.only and not case.name.startswith(tuple(options.only)):
                continue
            row = [
                verdict_of(column.name, server, case)
                for column, server in zip(columns, servers, strict=True)
            ]
            for column, verdict in zip(columns, row, strict=True):
                column.verdicts.append(verdict)
            print_row(row)
    for server in servers:
        server.close()
    print()
    for column in columns:
        print(column.sums())


if __name__ == "__main__":
    main()
