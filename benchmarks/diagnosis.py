"""Diagnoses scripts with known bugs and healthy ones, and prints recall and false alarms.

    python benchmarks/diagnosis.py [FOLDER ...] [--beside torch_audit ...] [--only T01 ...]
        [--peer-seconds N] [--peer-minutes N] [--peer-results FILE] [--write docs/diagnosis.md]

``FOLDER/cases/ID.json`` names a script, its ``kind`` and the accepted places (``where``); kind
``none`` is healthy. Scripts in ``FOLDER/controls`` are healthy. Without a folder, those of
``benchmarks/diagnosis_variants`` are run. A kind counts if a finding has it (``future-leak`` stands
for both errors of causal masks), a place if the finding names an accepted one exactly, a line if
that is a file and line. A finding that is established or supported is a false alarm on a healthy
script. Scripts that call ``init_process_group`` run on two ranks.

``--beside`` runs other tools on the same scripts and prints one table with all of them:
``detect_anomaly``, ``torch_audit``, ``msprobe_monitor``, ``traincheck``. Each is installed into a
virtual environment that is removed at the end; `diagnosis_peers` says how it is run, and which of
its rules names which kinds. A tool gets ``--peer-seconds`` for a script ("over 300 s" in its cell);
after three such scripts in a row, or ``--peer-minutes`` altogether, it is not tried on the others.
``--peer-results`` keeps in a file what the other tools said of each script: a later run goes on
with them, and renews the column of Sonde; a tool without scripts that are left is not installed.
``--write`` puts the tables into the part of a Markdown file between the marks. Scripts of Lightning
and accelerate need these.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from diagnosis_peers.environments import Environments
from diagnosis_peers.forked import Forked

TIMEOUT_SECONDS = 300
LEARN_SECONDS = 900
"""For what TrainCheck learns before it can judge a script."""
MOST_TIMEOUTS = 3
"""Scripts in a row after which a tool that is too slow is not tried any more."""
MARKS = "<!-- made by benchmarks/diagnosis.py -->", "<!-- end of what is made -->"
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
    "traincheck": (),
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
    """What a tool said of a script; ``failure`` is why it said nothing, ``cell`` what the table has
    then."""

    case: Case
    is_alarm: bool = False
    has_kind: bool = False
    has_place: bool = False
    has_line: bool = False
    listed: str = ""
    failure: str = ""
    cell: str = "no result"

    @property
    def text(self) -> str:
        if self.failure:
            return self.cell
        if self.case.is_healthy:
            return "ALARM" if self.is_alarm else "quiet"
        said = [name for name, has in (("cause", self.has_kind), ("place", self.has_place)) if has]
        return " + ".join(said) or ("alarm" if self.is_alarm else "-")


@dataclass
class KeptVerdicts:
    """What the tools said of scripts, in a file that is written after each."""

    file: Path
    verdicts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path) -> KeptVerdicts:
        return cls(file, json.loads(file.read_text()) if file.exists() else {})

    def of(self, tool: str, case: Case) -> Verdict | None:
        kept = self.verdicts.get(self._key(tool, case))
        return None if kept is None else Verdict(case, **kept)

    def keep(self, tool: str, verdict: Verdict) -> None:
        facts = {each.name: getattr(verdict, each.name) for each in fields(verdict)}
        del facts["case"]
        self.verdicts[self._key(tool, verdict.case)] = facts
        self.file.write_text(json.dumps(self.verdicts, indent=1))

    def _key(self, tool: str, case: Case) -> str:
        """A script that was changed has no verdicts."""
        return f"{tool} {case.name} {hashlib.sha256(case.script.read_bytes()).hexdigest()[:16]}"


@dataclass
class Column:
    """One tool, how it is run, and all its verdicts; ``server`` is None if it is not installed."""

    name: str
    server: Forked | None
    seconds: int
    verdicts: list[Verdict] = field(default_factory=list)
    timeouts: int = 0
    kept: KeptVerdicts | None = None
    seconds_left: float = math.inf
    """For all scripts that are left."""

    def is_needed(self, cases: list[Case]) -> bool:
        """Whether the tool has not been run on some script."""
        return self.kept is None or any(self.kept.of(self.name, each) is None for each in cases)

    def judge(self, case: Case) -> Verdict:
        """Run the tool on a script, or take what is kept of it."""
        known = None if self.kept is None else self.kept.of(self.name, case)
        if known is not None:
            verdict = known
        elif self.timeouts >= MOST_TIMEOUTS or self.seconds_left <= 0:
            verdict = Verdict(case, failure="not tried", cell="not tried")
        elif self.server is None:
            verdict = Verdict(case, failure="not installed", cell="not installed")
        else:
            start = time.monotonic()
            verdict = verdict_of(self.name, self.server, case, self.seconds)
            self.seconds_left -= time.monotonic() - start
            is_over = verdict.cell.startswith("over")
            self.timeouts = self.timeouts + 1 if is_over else 0
            if self.kept is not None:
                self.kept.keep(self.name, verdict)
        self.verdicts.append(verdict)
        return verdict

    @property
    def counts(self) -> dict[str, int]:
        bugs = [each for each in self.verdicts if not each.case.is_healthy]
        healthy = [each for each in self.verdicts if each.case.is_healthy]
        return {
            "alarm": sum(each.is_alarm or each.has_kind for each in bugs),
            "cause": sum(each.has_kind for each in bugs),
            "place": sum(each.has_place for each in bugs),
            "line": sum(each.has_line for each in bugs),
            "bugs": len(bugs),
            "false alarms": sum(each.is_alarm for each in healthy),
            "healthy": len(healthy),
            "without a result": sum(bool(each.failure) for each in self.verdicts),
        }

    def sums(self) -> str:
        n = self.counts
        return (
            f"{self.name}: alarm {n['alarm']}, cause {n['cause']}, place {n['place']}, "
            f"line {n['line']} of {n['bugs']}; false alarms {n['false alarms']} of "
            f"{n['healthy']}; without a result {n['without a result']}"
        )


def cases_in(folder: Path) -> list[Case]:
    found = []
    for file in sorted((folder / "cases").glob("*.json")):
        case = json.loads(file.read_text())
        script = file.parent / case["script"]
        found.append(Case(case["id"], script, case["kind"], tuple(case["where"])))
    controls = sorted((folder / "controls").glob("*.py"))
    return [*found, *(Case(file.stem, file, "none") for file in controls)]


def run_words(server: Forked, case: Case, words: list[str], directory: str, seconds: int) -> str:
    """Run a program in the directory, on two ranks if the script needs them; returns its output.
    Raises TimeoutExpired after ``seconds``."""
    text = case.script.read_text()
    if "init_process_group" not in text and "num_workers" not in text:
        if server.run(words, directory, seconds) == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(words, seconds)
        return (Path(directory) / "stdout").read_text()
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launched = [*launcher, *words] if "init_process_group" in text else words
    done = subprocess.run(
        [server.python, *launched],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    return done.stdout


def diagnosed(server: Forked, case: Case, directory: str, seconds: int) -> Verdict:
    """The verdict of ``sonde diagnose``."""
    words = ["-m", "sonde", "diagnose", "--json", case.script.name]
    output = run_words(server, case, words, directory, seconds)
    found: list[dict[str, Any]] = json.loads(output)["findings"]
    alarms = [
        {"rule": each["kind"], "kinds": [each["kind"]], "names": each["where"]} for each in found
    ]
    listed = ", ".join(f"{each['kind']} ({each['status']})" for each in found) or "none"
    is_alarm = any(each["status"] != "hypothesis" for each in found)
    return judged(case, alarms, listed, is_alarm, with_other_places=False)


def beside(peer: str, server: Forked, case: Case, directory: str, seconds: int) -> Verdict:
    """The verdict of another tool."""
    output = Path(directory) / "alarms.json"
    words = [str(RUNNERS / f"run_{peer}.py"), case.script.name, str(output)]
    run_words(server, case, words, directory, seconds)
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


def verdict_of(name: str, server: Forked, case: Case, seconds: int) -> Verdict:
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(case.script, directory)
        try:
            if name == "sonde":
                return diagnosed(server, case, directory, seconds)
            return beside(name, server, case, directory, seconds)
        except subprocess.TimeoutExpired:
            over = f"over {seconds} s"
            return Verdict(case, failure=over, cell=over)
        except (OSError, ValueError, KeyError) as error:
            return Verdict(case, failure=f"{type(error).__name__}: {error}")


def row_of(row: list[Verdict]) -> str:
    """One line of the table: all findings of Sonde alone, one cell for each tool beside others."""
    case, first = row[0].case, row[0]
    kind = "healthy" if case.is_healthy else case.kind
    if len(row) > 1:
        texts = " | ".join(each.text for each in row)
        return f"| {case.name} | {kind} | {texts} |"
    marks = ["yes" if each else "no" for each in (first.has_kind, first.has_place, first.has_line)]
    if case.is_healthy or first.failure:
        marks = ["ok" if first.text == "quiet" else first.text, "", ""]
    return f"| {case.name} | {kind} | {' | '.join(marks)} | {first.failure or first.listed} |"


def head_of(columns: list[Column]) -> list[str]:
    if len(columns) == 1:
        return ["| script | bug | kind | place | line | findings |", "|---|---|---|---|---|---|"]
    names = " | ".join(each.name for each in columns)
    return [f"| script | bug | {names} |", "|---|---|" + "---|" * len(columns)]


def write_tables(file: Path, columns: list[Column], rows: list[str]) -> None:
    """Put the sums of all tools and the table of all scripts between the marks of ``file``."""
    wanted = ("alarm", "cause", "place", "false alarms", "without a result")
    first = columns[0].counts
    lines = [
        f"{first['bugs']} bugs and {first['healthy']} healthy scripts:",
        "",
        f"| tool | {' | '.join(wanted)} |",
        "|---|" + "---|" * len(wanted),
        *(
            f"| {each.name} | {' | '.join(str(each.counts[name]) for name in wanted)} |"
            for each in columns
        ),
        "",
        *head_of(columns),
        *rows,
    ]
    text = file.read_text()
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    file.write_text(before + MARKS[0] + "\n\n" + "\n".join(lines) + "\n\n" + MARKS[1] + after)


def learn(server: Forked) -> None:
    """Learn the invariants of TrainCheck, outside of the time that a script has."""
    words = [str(RUNNERS / "run_traincheck.py"), "--learn"]
    with tempfile.TemporaryDirectory() as directory:
        if server.run(words, directory, LEARN_SECONDS):
            errors = (Path(directory) / "stderr").read_text().splitlines()
            print(f"TrainCheck learned nothing: {errors[-1:]}", file=sys.stderr)


def made_columns(
    options: argparse.Namespace, cases: list[Case], environments: Environments
) -> list[Column]:
    """The tools that are run, each installed; one that cannot be says so in its cells."""
    kept = None if options.peer_results is None else KeptVerdicts.load(options.peer_results)
    columns = [
        Column("sonde", Forked(environments.python("sonde"), IMPORTED["sonde"]), TIMEOUT_SECONDS)
    ]
    for name in options.beside:
        column = Column(name, None, options.peer_seconds, kept=kept)
        column.seconds_left = 60 * options.peer_minutes
        columns.append(column)
        if not column.seconds_left or not column.is_needed(cases):
            continue
        try:
            column.server = Forked(environments.python(name), IMPORTED[name])
            if name == "traincheck":
                learn(column.server)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{name} cannot be installed: {error}", file=sys.stderr)
    return columns


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[HERE / "diagnosis_variants"])
    parser.add_argument("--beside", nargs="+", choices=PEERS, default=[], metavar="TOOL")
    parser.add_argument("--only", nargs="+", default=[], help="ids or names of scripts")
    parser.add_argument("--peer-seconds", type=int, default=TIMEOUT_SECONDS, metavar="N")
    parser.add_argument("--peer-minutes", type=float, default=math.inf, metavar="N")
    parser.add_argument("--peer-results", type=Path, metavar="FILE")
    parser.add_argument("--write", type=Path, metavar="FILE", help="a Markdown file with the marks")
    options = parser.parse_args()
    for folder in options.folders:
        if not (folder / "cases").is_dir():
            parser.error(f"{folder} has no folder cases; name a folder with cases and controls")
    if options.write is not None and MARKS[0] not in options.write.read_text():
        parser.error(f"{options.write} has no line {MARKS[0]}")
    return options


def main() -> None:
    options = parsed()
    rows: list[str] = []
    with Environments() as environments:
        # Of TrainCheck: learned once, for all scripts.
        learned = tempfile.mkdtemp(prefix="traincheck-")
        os.environ["TRAINCHECK_INVARIANTS"] = str(Path(learned) / "invariants.json")
        found = [case for folder in options.folders for case in cases_in(folder)]
        only = tuple(options.only)
        cases = [case for case in found if not only or case.name.startswith(only)]
        columns = made_columns(options, cases, environments)
        print("\n".join(head_of(columns)))
        for case in cases:
            rows.append(row_of([column.judge(case) for column in columns]))
            print(rows[-1], flush=True)
        for column in columns:
            if column.server is not None:
                column.server.close()
        shutil.rmtree(learned, ignore_errors=True)
    print()
    for column in columns:
        print(column.sums())
    if options.write is not None:
        write_tables(options.write, columns, rows)


if __name__ == "__main__":
    main()
