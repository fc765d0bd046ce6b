"""``sonde view``: shows dumps in the debugger's page, or checks them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sonde.cli import ctl_text as text
from sonde.cli.ctl_watch import condition_of
from sonde.cli.desktop import forget_page, is_desktop, open_page
from sonde.cli.json_output import json_option, print_document
from sonde.cli.own_option import own_option
from sonde.cli.serve import (
    addresses_json,
    host_option,
    logdir_option,
    logs_in,
    need_server,
    profile_in,
    profile_option,
    token_option,
    with_certificate,
)
from sonde.cli.worker_options import worker_options
from sonde.core.errors import DumpError, UsageError
from sonde.core.text.problem_line import ProblemLine
from sonde.core.text.terminal_text import printable
from sonde.debugger.launch.server_process import free_port
from sonde.logs import say
from sonde.workers.run import WorkerOptions

if TYPE_CHECKING:
    from sonde.debugger.launch.server_registry import ServerState
    from sonde.dump.reading.directories import DumpProblem
    from sonde.server.dumps.run import DumpRun
    from sonde.server.hit_store import HitStore
    from sonde.server.http.events import EventBroker
    from sonde.wire.watchpoints import WatchpointDraft

HIT = 1
UNKNOWN = 2
_PORT = 8080
_SHOWN = 50
_GC_THRESHOLD = 200_000

EPILOG = """\b
Examples:
  sonde view sonde_dump                      the page: graph, tensors, statistics over steps
  sonde view run_a run_b                     two dumps, side by side
  sonde view runs                            event files: a TensorBoard log, or of SummaryCollector
  sonde view --logdir runs sonde_dump        both
  sonde view --profile sonde_profile sonde_dump
                                             with the time of each op as its colour
  sonde view --check sonde_dump              print where NaN and Inf first appear; no browser
  sonde view --check --watch 'tensor_too_large max_gt=1e4' --json sonde_dump

\b
Exit codes of --check: 0 no hits; 1 hits; 2 error, not a dump, no values to check, or no hits but a
damaged file, or a run that was observed only in part.
"""


@click.command(epilog=EPILOG)
@click.argument("directories", nargs=-1, required=True, metavar="DIR [DIR2]")
@click.option(
    "--watch", multiple=True, metavar="CONDITION", help="Check this condition in all steps."
)
@click.option("--load", multiple=True, metavar="FILE", help="Check the watchpoints of this file.")
@click.option("--recommended", is_flag=True, help="Check the recommended watchpoints.")
@click.option("--check", is_flag=True, help="Print the hits instead of serving the page.")
@json_option
@click.option(
    "--port",
    type=int,
    help=f"The port of the page. Default: {_PORT}, or any free port if it is taken.",
)
@host_option
@token_option
@with_certificate
@click.option(
    "--browser/--no-browser", default=True, help="Open the page in a browser, if this is a desktop."
)
@click.option(
    "--in-frame",
    is_flag=True,
    help="Let a notebook on this machine show the page in a frame, as %sonde_page does.",
)
@profile_option
@logdir_option
@worker_options
@own_option
def view(
    directories: tuple[str, ...],
    watch: tuple[str, ...],
    load: tuple[str, ...],
    recommended: bool,
    check: bool,
    as_json: bool,
    workers: int | None,
    ray: str | None,
    **serving: Any,
) -> int:
    """View one dump, or compare two, written by Sonde, MindSpore or msprobe; or event files.

    Needs neither the training nor MindSpore. A dump that contains only statistics is shown without
    values.
    """
    if len(directories) > 2:
        raise UsageError(
            f"sonde view takes at most two dumps (got {len(directories)})", slug="usage"
        )
    paths = [Path(each) for each in directories]
    drafts = _drafts(watch, load, recommended)
    # A graph is some hundred thousand objects that stay alive. With the default threshold the
    # garbage collector scans them so often that it takes longer than reading them.
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    if check:
        return _check(paths, drafts, as_json, WorkerOptions(workers, ray))
    if workers is not None or ray is not None:
        raise UsageError("--workers and --ray need --check", slug="usage")
    need_server()
    _serve(paths, drafts, as_json=as_json, **serving)
    return 0


def _drafts(watch: Sequence[str], load: Sequence[str], recommended: bool) -> list[WatchpointDraft]:
    from sonde.debugger.initial_watchpoints import recommended_draft
    from sonde.watch.conditions import RECOMMENDED
    from sonde.wire.watchpoints import WatchpointDraft

    found = [WatchpointDraft("", (_condition(words),)) for words in watch]
    found += [draft for file in load for draft in _of_file(file)]
    if recommended:
        found += [recommended_draft(each) for each in RECOMMENDED]
    return found


def _of_file(file: str) -> list[WatchpointDraft]:
    from sonde.debugger.initial_watchpoints import read_drafts
    from sonde.server.watchpoint_set import check_draft

    try:
        return [check_draft(draft) for draft in read_drafts(Path(file))]
    except UsageError as error:
        if error.slug == "watchpoint-file":
            raise
        raise UsageError(f"{file}: {error.message}", slug="watchpoint-file") from None


def _condition(words: str) -> Any:
    """Parse ``tensor_too_large max_gt=10``, or an expression."""
    from sonde.watch.conditions import parse_condition
    from sonde.wire.shapes import ConditionSpec

    first, *rest = words.split() or [""]
    is_id = first.replace("_", "").isalpha() and all("=" in word for word in rest)
    spec = condition_of(first, rest) if is_id else condition_of(words, ())
    parse_condition(**spec)
    return ConditionSpec(spec["id"], spec["parameters"], spec["expression"])


def _check(
    paths: Sequence[Path], drafts: Sequence[WatchpointDraft], as_json: bool, workers: WorkerOptions
) -> int:
    answers = []
    for path in paths:
        found = _checked(path, drafts, None if as_json else _progress, workers)
        answers.append(found.answer())
        if not as_json:
            if len(paths) > 1:
                click.echo(f"{path}:")
            _print_checked(found, drafts)
    if as_json:
        print_document(answers[0] if len(answers) == 1 else answers)
    if any(hit["verdict"] == "hit" for answer in answers for hit in answer["hits"]):
        return HIT
    is_unknown = any(answer["damaged"] or answer["unobserved"] for answer in answers)
    return UNKNOWN if is_unknown else 0


@dataclass(frozen=True, slots=True)
class _CheckedDump:
    """What a check of one dump found. ``why_not``: why the dump has no values, or empty."""

    path: Path
    hits: HitStore
    problems: Sequence[DumpProblem]
    warnings: list[dict[str, Any]]
    why_not: str

    @property
    def headline(self) -> str | None:
        from sonde.server.headlines import headline_of_hits

        found = headline_of_hits(self.hits.in_order())
        return None if found is None else found.text

    @property
    def gaps(self) -> list[str]:
        return [each.message for each in self.problems if each.is_gap]

    def answer(self) -> dict[str, Any]:
        """For ``--json``."""
        import msgspec

        from sonde.server.dumps.check import is_damage

        hits = msgspec.to_builtins(list(self.hits.in_order()))
        return {
            "dump": str(self.path),
            "headline": self.headline,
            "total": len(hits),
            "dropped": self.hits.dropped(),
            "hits": hits,
            "problems": [str(each) for each in self.problems],
            "damaged": [str(each) for each in self.problems if is_damage(each)],
            "warnings": self.warnings,
            "unobserved": [*([self.why_not] if self.why_not else []), *self.gaps],
        }


def _checked(
    path: Path,
    drafts: Sequence[WatchpointDraft],
    progress: Callable[[int, int], None] | None,
    workers: WorkerOptions,
) -> _CheckedDump:
    from sonde.dump.reader import Dump
    from sonde.server.dumps.check import check_dump

    problems: list[DumpProblem] = []
    hits = check_dump(path, drafts or default_drafts(), progress, problems.append, workers)
    why_not = Dump(path).why_no_values()
    return _CheckedDump(path, hits, problems, _unmatched(path, drafts), why_not or "")


def _print_checked(found: _CheckedDump, drafts: Sequence[WatchpointDraft]) -> None:
    import msgspec

    from sonde.server.dumps.check import is_damage
    from sonde.server.graph.search import PageWindow
    from sonde.server.hit_store import HitFilter

    page = msgspec.to_builtins(found.hits.page(HitFilter(), PageWindow(0, _SHOWN)))
    gaps = [printable(each) for each in found.gaps]
    names = {number: draft.name for number, draft in enumerate(drafts, 1)}
    lines = [*text.hits_lines(page, names or None, "; --json prints them", gaps)]
    if found.headline is not None:
        lines.insert(0, found.headline)
    if found.why_not and not gaps:  # Gaps say why there are no values.
        lines = [f"no values to check: {found.why_not}"]
    for line in lines:
        click.echo(printable(line))
    for line in text.warning_lines(found.warnings):
        say(printable(line))
    for problem in sorted(found.problems, key=is_damage, reverse=True)[:_SHOWN]:
        if problem.is_gap:
            continue
        if is_damage(problem):
            say(ProblemLine(f"error: damaged: {problem}", slug=problem.slug))
        else:
            say(f"note: {problem}")


def default_drafts(name: str = "") -> list[WatchpointDraft]:
    """What is checked without options: NaN and Inf."""
    from sonde.wire.shapes import ConditionSpec
    from sonde.wire.watchpoints import WatchpointDraft

    return [WatchpointDraft(name, (ConditionSpec("tensor_overflow"),))]


def _unmatched(path: Path, drafts: Sequence[WatchpointDraft]) -> list[dict[str, Any]]:
    """The watchpoints with patterns that match nothing in the graphs of a dump."""
    from sonde.server.dumps.index import IndexedDump
    from sonde.server.routes.unmatched_patterns import MOST_GRAPHS, RECOMMENDED_OPS, PatternSearch

    searches = {
        number: PatternSearch(draft)
        for number, draft in enumerate(drafts, 1)
        if draft.ops and draft.ops not in RECOMMENDED_OPS
    }
    if not searches:
        return []
    dump = IndexedDump(path)
    for rank in dump.dump.ranks:
        for graph_id in dump.dump.graph_ids(rank)[:MOST_GRAPHS]:
            index = dump.graph(rank, graph_id)
            for search in searches.values():
                if index is not None and search.useless:
                    search.look_at(index)
    return [
        {"id": number, "text": search.message()}
        for number, search in searches.items()
        if search.is_known and search.useless
    ]


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        click.echo(f"\r{done} of {total} tensors{end}", err=True, nl=False)


def is_log_directory(path: Path) -> bool:
    """Whether a directory is no dump but has event files, or some below it."""
    from sonde.dump.reader import Dump
    from sonde.summary.event_index import find_logs

    if not find_logs(path):
        return False
    try:
        Dump(path)
    except DumpError:
        return True
    return False


def summaries_of(paths: Sequence[Path]) -> list[Path]:
    """The directories of SummaryCollector that the lineage of these dumps names."""
    from sonde.trends.places import run_lineages

    found: dict[Path, None] = {}
    for path in paths:
        with suppress(DumpError):
            for made in run_lineages(path).values():
                found |= {Path(each): None for each in made.summaries}
    return list(found)


def _opened(
    paths: Sequence[Path], drafts: Sequence[WatchpointDraft]
) -> Callable[[EventBroker], list[DumpRun]]:
    """What opens the dumps for the server: their checks begin, and the comparison of two."""
    from sonde.server.dumps.run import open_dumps, start_comparison

    def sources(broker: EventBroker) -> list[DumpRun]:
        runs = open_dumps(paths, broker)
        for run in runs:
            run.prepare()
            for draft in drafts or default_drafts("NaN and Inf"):
                run.watchpoints.add(draft)
            if drafts:
                run.start_check()
            else:
                run.check_when_prepared()
        if len(runs) == 2:
            start_comparison(*runs)
        return runs[::-1]  # The page opens the last one first.

    return sources


def _serve(
    paths: Sequence[Path],
    drafts: Sequence[WatchpointDraft],
    *,
    as_json: bool,
    host: str,
    port: int | None,
    token: str,
    certfile: str,
    keyfile: str,
    browser: bool,
    profile: str,
    in_frame: bool,
    logdir: tuple[Path, ...],
) -> None:
    from sonde.server.serving import ServerOptions, serve
    from sonde.wire.tls import server_certificate

    def ready(state: ServerState) -> None:
        address = f"{state.address}&tab=compare" if len(paths) == 2 else state.address
        if as_json:
            print_document({**addresses_json(state), "page": address})
        else:
            click.echo(f"sonde: the page is at {address}")
        if browser and is_desktop():
            open_page(address)

    measured = profile_in(profile)
    logs = [*logs_in(logdir), *(each for each in paths if is_log_directory(each))]
    paths = [each for each in paths if each not in logs]
    logs += summaries_of(paths)
    chosen = free_port(host, _PORT) if port is None else port
    try:
        certificate = server_certificate(certfile, keyfile)
        options = ServerOptions(
            host,
            chosen,
            None,
            token,
            certificate=certificate,
            profile=measured,
            in_frame=in_frame,
            logs=tuple(logs),
        )
        serve(options, ready, _opened(paths, drafts))
    finally:
        forget_page()
