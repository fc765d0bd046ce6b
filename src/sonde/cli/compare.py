"""``sonde compare``: compares two runs op by op and finds where they first diverge."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from sonde.cli.compare_runs import DEFAULT_STEPS, pythons_of, refuse_scripts, run_into
from sonde.cli.compare_text import print_comparison
from sonde.cli.json_output import json_file_option, json_option, write_document
from sonde.cli.mindspore_python import python_option
from sonde.cli.own_option import own_option
from sonde.cli.progress import progress_bar
from sonde.cli.terminal import Terminal
from sonde.cli.worker_options import worker_options
from sonde.compare.options import CompareError, CompareOptions
from sonde.compare.run_layout import RunLayout
from sonde.compare.runs.compare import compare as compare_dumps
from sonde.compare.runs.merging.layout_file import read_layout
from sonde.compare.runs.pairing.map_file import read_map, write_map
from sonde.compare.runs.report import csv_text, document, incomparable, page_text
from sonde.compare.runs.result import RunComparison
from sonde.compare.runs.verdict import damaged
from sonde.core.errors import DumpError, UsageError
from sonde.core.files.atomic_file import write_whole
from sonde.core.selection import StepSet, parse_steps
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.reader import Dump
from sonde.logs import say
from sonde.report.links import link_reports
from sonde.workers.run import WorkerOptions

_F = TypeVar("_F", bound=Callable[..., Any])

EXIT_CODES = {"aligned": 0, "diverged": 1, "incomparable": 2}

EPILOG = """\b
Examples:
  sonde compare dump_a dump_b                     two dumps, written by Sonde or by MindSpore
  sonde compare dump_a dump_b --html report.html  with an HTML report
  sonde compare --run 'train.py --fp32' --run 'train.py --bf16'
  sonde compare --python .venv-mindspore --run train_torch.py --run train_mindspore.py
  sonde compare --run 'torchrun --nproc-per-node 2 train.py' --run train.py
  sonde compare dump_of_8_ranks dump_of_1_rank    ranks are merged by the placement of tensors
  sonde compare dump_a dump_b --write-map map.yaml   edit the file, then use it with --map

\b
Exit codes: 0 aligned, 1 diverged, 2 could not be compared.
"""


@dataclass(frozen=True, slots=True)
class CompareArguments:
    """The command line as click read it."""

    sides: tuple[Path, ...]
    runs: tuple[str, ...]
    python: str | None
    steps: str | None
    rank: int | None
    rtol: float | None
    atol: float | None
    map_file: Path | None
    written_map: Path | None
    as_json: bool
    json_file: str | None
    html_file: Path | None
    csv_file: Path | None
    keep: Path | None
    layout_a: Path | None
    layout_b: Path | None
    perturb: bool | None
    perturbed: Path | None
    threads: int | None
    workers: int | None
    ray: str | None
    limit: int

    @property
    def written(self) -> list[Path]:
        """The files to write."""
        json_file = None if self.json_file is None else Path(self.json_file)
        every = (self.html_file, json_file, self.csv_file, self.written_map)
        return [path for path in every if path is not None]


def _file(option: str, name: str, text: str) -> Callable[[_F], _F]:
    """An option that names a file."""
    kind = click.Path(path_type=Path)
    return click.option(option, name, type=kind, metavar="FILE", help=text)


@click.command(epilog=EPILOG)
@click.argument("sides", nargs=-1, metavar="[A] [B]", type=click.Path(path_type=Path))
@click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="'SCRIPT ARGS'",
    help="Run this script under Sonde and compare the dump of the run; runs come before dumps. "
    f"The script is stopped after the last step to compare (default: steps {DEFAULT_STEPS}).",
)
@python_option
@click.option("--steps", metavar="STEPS", help="Only these steps, such as '0|5-8'. Default: all.")
@click.option("--rank", type=int, metavar="N", help="Only this rank. Default: all common ranks.")
@click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance for every op.")
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance for every op.")
@_file("--map", "map_file", "Pair the ops as in this YAML file, before all other rules.")
@_file("--write-map", "written_map", "Write the pairs of ops to this YAML file.")
@json_option
@json_file_option
@_file("--html", "html_file", "Write an HTML report with plots and a table.")
@_file("--csv", "csv_file", "Write one row per pair of tensors; - is standard output.")
@click.option(
    "--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep the dumps of --run here."
)
@_file("--layout-a", "layout_a", "How A lies over its ranks, where its dump does not say (YAML).")
@_file("--layout-b", "layout_b", "The same for B.")
@click.option(
    "--perturb/--no-perturb",
    default=None,
    help="Run B, given with --run, once more with its weights changed in their last bits, and "
    "allow the errors that this causes. Default: if A and B have other numbers of ranks.",
)
@click.option(
    "--perturbed",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A dump of B that 'sonde run --perturb-weights' made.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="The number of threads of each process. Default: the number of cores.",
)
@worker_options
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=8,
    metavar="N",
    help="List at most N pairs and ops. Default: 8.",
)
@own_option
def compare(**given: Any) -> int:
    """Compare two runs, op by op, and name the first op at fault.

    A and B are dumps, written by Sonde, MindSpore or msprobe; instead of one or both, --run runs
    a script. Ops are paired by name or, where structure or framework differ, by their computation
    and their inputs. B is the reference.
    """
    arguments = CompareArguments(**given)
    _check(arguments)
    try:
        with _dumps(arguments) as (a, b, perturbed):
            comparison = _compared(a, b, perturbed, arguments)
    except (CompareError, DumpError) as error:
        if arguments.json_file is not None:
            write_document(incomparable(str(error)), as_json=False, json_file=arguments.json_file)
        raise
    _write(comparison, arguments)
    if not arguments.as_json and arguments.csv_file != Path("-"):
        print_comparison(comparison, Terminal(highlight=False), limit=arguments.limit)
        _name_files(arguments)
    if comparison.verdict == "incomparable":
        say(ProblemLine(damaged(comparison)[0], slug="npy-file"))
    return EXIT_CODES[comparison.verdict]


def _check(arguments: CompareArguments) -> None:
    count = len(arguments.sides) + len(arguments.runs)
    if count != 2:
        raise UsageError(
            f"compare needs two sides, dumps or --run 'SCRIPT ARGS' (got {count})", slug="usage"
        )
    refuse_scripts("compare", arguments.sides)
    if arguments.python is not None and not arguments.runs:
        raise UsageError("--python needs --run", slug="usage")
    if arguments.perturb and len(arguments.runs) < 2:
        raise UsageError(
            "--perturb needs --run for B; for a dump: --perturbed DIR, made with 'sonde run "
            "--perturb-weights'",
            slug="usage",
        )
    if arguments.keep is not None and not arguments.runs:
        raise UsageError("--keep needs --run", slug="usage")
    for path in arguments.written:
        if str(path) != "-" and not path.absolute().parent.is_dir():
            raise UsageError(f"{path}: directory {path.parent} does not exist", slug="usage")


@contextmanager
def _dumps(arguments: CompareArguments) -> Iterator[tuple[Dump, Dump, Path | None]]:
    """Both sides, runs first, and B with other weights, if it is known. The dumps of runs are
    removed afterwards, unless --keep is given."""
    paths = list(arguments.sides)
    perturbed = arguments.perturbed
    if perturbed is not None:
        Dump(perturbed)
    if not arguments.runs:
        yield Dump(paths[0]), Dump(paths[1]), perturbed
        return
    steps = parse_steps(DEFAULT_STEPS if arguments.steps is None else arguments.steps)
    for path in paths:
        Dump(path)  # Report a dump that cannot be read before running scripts.
    pythons = pythons_of(arguments.runs, arguments.python)
    place = arguments.keep or Path(tempfile.mkdtemp(prefix="sonde-compare-"))
    try:
        for number, command in enumerate(arguments.runs):
            say(f"running {command}")
            dump = run_into(command, place / "ab"[number], steps, python=pythons[number])
            paths.insert(number, dump)
        a, b = Dump(paths[0]), Dump(paths[1])
        if perturbed is None and pythons[-1] is None and _wants_perturbed(a, b, arguments):
            say(f"running {arguments.runs[-1]} again, with its weights changed in their last bits")
            option = ["--perturb-weights"]
            perturbed = run_into(arguments.runs[-1], place / "perturbed", steps, options=option)
        yield a, b, perturbed
    finally:
        if arguments.keep is None:
            shutil.rmtree(place, ignore_errors=True)


def _wants_perturbed(a: Dump, b: Dump, arguments: CompareArguments) -> bool:
    """Whether to learn the tolerance: as the user says, or if the layouts differ."""
    if len(arguments.runs) < 2 or arguments.perturb is False:
        return False
    return len(b.ranks) == 1 and (arguments.perturb or len(a.ranks) > 1)


def _compared(
    a: Dump, b: Dump, perturbed: Path | None, arguments: CompareArguments
) -> RunComparison:
    steps: StepSet | None = None if arguments.steps is None else parse_steps(arguments.steps)
    names = {} if arguments.map_file is None else read_map(arguments.map_file, a, b)
    layouts = [
        RunLayout() if file is None else read_layout(file, len(dump.ranks))
        for file, dump in ((arguments.layout_a, a), (arguments.layout_b, b))
    ]
    with progress_bar("comparing") as progress:
        return compare_dumps(
            a,
            b,
            CompareOptions(
                layout_a=layouts[0],
                layout_b=layouts[1],
                perturbed=perturbed,
                workers=WorkerOptions(arguments.workers, arguments.ray),
                steps=steps,
                rank=arguments.rank,
                rtol=arguments.rtol,
                atol=arguments.atol,
                names=names,
                threads=arguments.threads,
                progress=progress,
            ),
        )


def _write(comparison: RunComparison, arguments: CompareArguments) -> None:
    if arguments.as_json or arguments.json_file is not None:
        found = document(comparison)
        write_document(found, as_json=arguments.as_json, json_file=arguments.json_file)
    if arguments.csv_file is not None:
        _save(arguments.csv_file, csv_text(comparison))
    if arguments.html_file is not None:
        _save(arguments.html_file, page_text(comparison))
        link_reports(arguments.html_file.parent)
    if arguments.written_map is not None:
        write_map(arguments.written_map, comparison)


def _save(path: Path, text: str) -> None:
    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        write_whole(path, text)
    except OSError as error:
        raise CompareError(
            f"{path}: cannot be written: {error.strerror}", slug="compare-file"
        ) from None


def _name_files(arguments: CompareArguments) -> None:
    for path in arguments.written:
        print(f"wrote {path}")
    if arguments.keep is not None:
        print(f"the dumps are in {arguments.keep}")
