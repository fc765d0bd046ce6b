"""``sonde ranks``: compares the ranks in a dump."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sonde.cli.json_output import json_option, print_document
from sonde.cli.own_option import own_option
from sonde.cli.worker_options import worker_options
from sonde.core.errors import UsageError
from sonde.core.text.terminal_text import printable
from sonde.workers.run import WorkerOptions

if TYPE_CHECKING:
    from sonde.ranks.report import NonFiniteReport

FOUND = 1

EPILOG = """\b
Examples:
  torchrun --nproc-per-node 2 -m sonde run --stats --dump-to out train.py
  sonde ranks out
  sonde ranks out --json

\b
Exit codes: 0 no difference that should not be; 1 a finding; 2 wrong use. To compare the ranks while
they run: sonde run --check-ranks.
"""


@click.command("ranks", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@json_option
@worker_options
@own_option
def ranks(directory: Path, as_json: bool, workers: int | None, ray: str | None) -> int:
    """Compare the ranks in a dump: weights, batches, collectives, and the rank that made the first
    NaN or Inf."""
    from sonde.diagnosis.document import as_document
    from sonde.dump.reader import Dump
    from sonde.ranks.dump_reports import reports_of
    from sonde.ranks.finding_text import finding_lines, summary_line
    from sonde.ranks.job import RankJob, is_fault

    dump = Dump(directory)
    if len(dump.ranks) < 2:
        raise UsageError(
            f"{directory} has one rank only; dump several with "
            "'torchrun --nproc-per-node N -m sonde run --dump-to DIR'",
            slug="one-rank",
        )
    if why_not := dump.why_no_values():
        raise UsageError(f"{directory}: {why_not}, so there is nothing to compare", slug="one-rank")
    job = RankJob()
    chosen = WorkerOptions(workers, ray)
    for report in (*reports_of(dump, chosen), *_non_finite(directory, chosen)):
        job.add(report)
    job.finish()
    if as_json:
        print_document(as_document(job.findings))
    else:
        for found in job.findings:
            for line in finding_lines(found):
                click.echo(printable(line))
        click.echo(summary_line(job.findings, job.judged_steps, len(dump.ranks)))
    return FOUND if any(is_fault(each) for each in job.findings) else 0


def _non_finite(directory: Path, workers: WorkerOptions) -> Iterator[NonFiniteReport]:
    """The first NaN or Inf of each rank, as ``view --check`` finds it."""
    from sonde.ranks.dump_reports import WORLD
    from sonde.ranks.report import NonFiniteReport
    from sonde.server.dumps.check import check_dump
    from sonde.watch.hit_text import COLLECTIVES
    from sonde.wire.shapes import ConditionSpec
    from sonde.wire.watchpoints import WatchpointDraft

    draft = WatchpointDraft("", (ConditionSpec("tensor_overflow"),))
    hits = check_dump(directory, [draft], workers=workers)
    seen: set[int] = set()
    for hit in sorted(hits.in_order(), key=lambda each: (each.step, each.order)):
        if hit.verdict != "hit" or hit.part != "producer" or hit.rank in seen:
            continue
        seen.add(hit.rank)
        name = hit.op.rpartition("/")[2]
        is_brought = name.startswith(COLLECTIVES)
        source = hit.source
        line = "" if source is None else f"{source.file.rpartition('/')[2]}:{source.line}"
        yield NonFiniteReport(hit.rank, hit.step, hit.op, line, WORLD if is_brought else "", -1)
