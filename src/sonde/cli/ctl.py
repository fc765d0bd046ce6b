"""``sonde ctl``: controls the debugger from a terminal or a script."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import click

from sonde.cli import ctl_text as text
from sonde.cli.ctl_target import (
    F,
    RunTarget,
    checked_seconds,
    command_of,
    rank_option,
    show,
    timeout_option,
)
from sonde.cli.ctl_watch import watch
from sonde.core.errors import UsageError
from sonde.core.graph import but_gradients
from sonde.core.text.number_text import count_text
from sonde.core.text.terminal_text import quoted
from sonde.logs import say_result

EPILOG = """\b
Examples:
  sonde ctl status
  sonde ctl watch add tensor_overflow
  sonde ctl watch add gradient_too_large abs_mean_gt=10
  sonde ctl watch add 'nan_count > 0 or abs_max > 10 * prev.abs_max' --ops relu
  sonde ctl continue --wait          run until a watchpoint is hit, or to the end
  sonde ctl hits --json
  sonde ctl tensor log-op0 --index '[0, :10]'
  sonde ctl terminate

\b
Exit codes: 0 success; 1 a watchpoint was hit (continue --wait, step, next, to, hits);
2 error, or no server; 3 the training failed, was lost, or did not reach the op; 4 timeout.
"""
HIT, FAILED, LATE = 1, 3, 4
_SHOWN: Final = 20
_MOST_GRAPHS: Final = 20
_HELD_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.5


@click.group(epilog=EPILOG)
@click.option(
    "--server",
    metavar="URL",
    help="The server. Default: your only server on this machine, or the newest for commands that "
    "change nothing.",
)
@click.option("--token", help="The token of the server.", envvar="SONDE_DEBUGGER_TOKEN")
@click.option("--run", help="The id of the run, if several are connected.")
@click.option(
    "--patience",
    default=0.0,
    callback=checked_seconds,
    help="Seconds to wait for a server and a training to appear. Default: 0.",
)
@click.pass_context
def ctl(
    ctx: click.Context, server: str | None, token: str | None, run: str | None, patience: float
) -> None:
    """Control and inspect a training that is connected to the debugger.

    The page uses the same HTTP interface.
    """
    ctx.obj = RunTarget(server, token, run, patience)


@command_of(ctl)
def status(obj: RunTarget, as_json: bool) -> int:
    """Show the runs and their state."""
    answer = {"runs": obj.runs()}
    lines = [line for run in answer["runs"] for line in text.status_lines(run)]
    show(answer, as_json, lines or ["no training is connected yet"])
    return 0


@command_of(ctl)
def address(obj: RunTarget, as_json: bool) -> int:
    """Print the address of the page, with the token."""
    show({"address": obj.client.address}, as_json, [obj.client.address])
    return 0


def _control(
    obj: RunTarget,
    command: str,
    *,
    as_json: bool,
    wait: bool,
    timeout: float,
    rank: int | None = None,
    **more: object,
) -> int:
    body = {"command": command, "rank": rank, **more}
    run = _settled(obj, timeout if wait else 0.0, body)
    show(run, as_json, text.run_lines(run))
    code = _outcome(run, rank) if wait else 0
    if code == 0 and command == "to" and _is_over(_ranks(run, rank)):
        say_result(f"the training ended before it reached {more['op']}")
        return FAILED
    return code


def _settled(obj: RunTarget, seconds: float, body: dict[str, object]) -> Any:
    """Send the command and return the run once it is paused or over, or after ``seconds``. The
    server holds a request for at most ``_HELD_SECONDS``; after that the run is polled."""
    path, end = obj.path(), time.monotonic() + seconds
    asked = min(seconds, _HELD_SECONDS)
    run = obj.client.send("POST", f"{path}/control", {**body, "wait_seconds": asked}, asked)
    while asked and _is_running(_ranks(run, body.get("rank"))) and time.monotonic() < end:
        time.sleep(min(_POLL_SECONDS, max(end - time.monotonic(), 0.0)))
        run = obj.client.get(path)
    return run


def _ranks(run: Any, number: object) -> list[Any]:
    """The rank of this number; None: all of them."""
    return [rank for rank in run["ranks"] if number in (None, rank["rank"])]


def _is_over(ranks: list[Any]) -> bool:
    return all(rank["state"] in ("ended", "lost") for rank in ranks)


def _is_running(ranks: list[Any]) -> bool:
    return not _is_over(ranks) and all(rank["state"] != "paused" for rank in ranks)


def _outcome(run: Any, number: object) -> int:
    """The exit code for the rank of this number; None: for all of them."""
    ranks = _ranks(run, number)
    if _is_over(ranks):
        return 0 if all(rank["exit_code"] == 0 for rank in ranks) else FAILED
    if not _is_running(ranks):
        reasons = {rank["reason"] for rank in ranks}
        return HIT if "hit" in reasons else FAILED if "missed" in reasons else 0
    say_result("timeout: the training still runs")
    return LATE


def _control_options(*, wait: bool) -> Callable[[F], F]:
    wait_option = click.option(
        "--wait/--no-wait", default=wait, help="Return when the training pauses or ends."
    )
    return lambda command: wait_option(timeout_option(rank_option(command)))


@command_of(ctl, "continue")
@_control_options(wait=False)
def continue_(obj: RunTarget, **options: Any) -> int:
    """Continue until a watchpoint is hit or the training ends."""
    return _control(obj, "continue", **options)


@command_of(ctl)
@_control_options(wait=True)
def pause(obj: RunTarget, **options: Any) -> int:
    """Pause at the next op."""
    return _control(obj, "pause", **options)


@command_of(ctl)
@click.argument("steps", type=click.IntRange(1), default=1)
@_control_options(wait=True)
def step(obj: RunTarget, **options: Any) -> int:
    """Run STEPS steps. Default: 1."""
    return _control(obj, "step", **options)


@command_of(ctl, "next")
@_control_options(wait=True)
def next_(obj: RunTarget, **options: Any) -> int:
    """Run one op."""
    return _control(obj, "next", **options)


@command_of(ctl)
@click.argument("op")
@_control_options(wait=True)
def to(obj: RunTarget, **options: Any) -> int:
    """Run to an op, or to the first op of a scope or module.

    OP is a full name, a unique part of it, the end of the path of a scope (b2-Block/), or the path
    of a module (layers.0). If a whole step runs without it, the training is paused after that step.
    """
    return _control(obj, "to", **options)


@command_of(ctl)
def terminate(obj: RunTarget, as_json: bool) -> int:
    """End the training by an exception, so that its cleanup code runs."""
    code = _control(obj, "terminate", as_json=as_json, wait=True, timeout=60.0)
    return LATE if code == LATE else 0


@command_of(ctl)
@timeout_option
def recheck(obj: RunTarget, timeout: float, as_json: bool) -> int:
    """Check the watchpoints in all steps of a dump, or on the values a training has now."""
    path = obj.path(f"/recheck?wait_seconds={timeout}")
    run = obj.client.send("POST", path, {}, timeout)
    check = run["recheck"]
    state = "so far, still running" if check["running"] else "in total"
    tensors, hits = count_text(check["done"], "tensor"), count_text(check["hits"], "hit")
    show(run, as_json, [f"{tensors} checked {state}, {hits}", *check["notes"]])
    return LATE if check["running"] else HIT if check["hits"] else 0


@command_of(ctl)
@click.option(
    "--measure",
    is_flag=True,
    help="Let one coming step run unobserved, which measures the speed without Sonde; watchpoints "
    "are not evaluated on its ops. Returns when it has ended, or when the training is paused.",
)
@timeout_option
def speed(obj: RunTarget, measure: bool, timeout: float, as_json: bool) -> int:
    """Show how long a step takes, with Sonde and without."""
    path, end = obj.path(), time.monotonic() + timeout
    run = obj.client.send("POST", f"{path}/measure-speed", {}) if measure else obj.client.get(path)
    while measure and _is_measuring(run) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        run = obj.client.get(path)
    show(run, as_json, text.speed_lines(run))
    return LATE if measure and _is_measuring(run) else 0


def _is_measuring(run: Any) -> bool:
    """Whether a measurement is under way; a paused training measures when it continues."""
    return _is_running(run["ranks"]) and any(rank["is_measuring"] for rank in run["ranks"])


@command_of(ctl)
@click.option("--step", type=int, help="Only hits of this step.")
@click.option("--graph", type=int, help="Only hits of steps that ran this graph.")
@click.option("--limit", default=_SHOWN, show_default=True, help="Print at most this many.")
@rank_option
def hits(
    obj: RunTarget, step: int | None, graph: int | None, limit: int, rank: int | None, as_json: bool
) -> int:
    """List the hits of watchpoints, in execution order."""
    query = {"step": step, "graph": graph, "rank": rank}
    answer = obj.client.get(obj.path("/hits"), **query, limit=limit)
    run = obj.client.get(obj.path())
    names = {spec["id"]: spec["name"] for spec in run["watchpoints"]}
    show(answer, as_json, text.hits_lines(answer, names, gaps=run["unobserved"]))
    # The printed page may contain only undecided ones, with true hits on a later page.
    true_hits = obj.client.get(obj.path("/hits"), **query, verdict="hit", limit=1)
    return HIT if true_hits["total"] else 0


@command_of(ctl)
@click.argument("op")
@click.option("--index", default="", help="The elements to print, such as '[0, :, 3:5]'.")
@click.option("--io", type=click.Choice(["input", "output"]), default="output", show_default=True)
@click.option("--slot", type=click.IntRange(0), default=0, show_default=True)
@click.option("--step", type=int, help="The step. Default: the latest.")
@rank_option
def tensor(
    obj: RunTarget,
    op: str,
    index: str,
    io: str,
    slot: int,
    step: int | None,
    rank: int | None,
    as_json: bool,
) -> int:
    """Print statistics of a tensor, and with --index its elements."""
    query = {"op": _op(obj, op, rank), "io": io, "slot": slot, "step": step, "rank": rank}
    summary = obj.client.get(obj.path("/tensor/summary"), **query)
    answer, lines = {"summary": summary}, list(text.summary_lines(summary))
    if index:
        answer["table"] = obj.client.get(obj.path("/tensor/table"), index=index, **query)
        lines.extend(text.table_lines(answer["table"]))
    show(answer, as_json, lines)
    return 0


def _op(obj: RunTarget, words: str, rank: int | None) -> str:
    """The full name of the op that ``words`` names; UsageError if it is not unique."""
    names = _names(obj, words, rank)
    exact = [name for name in names if name == words] or [
        name for name in names if name.endswith(f"/{words}")
    ]
    own = but_gradients(exact or names)
    if len(own) == 1:
        return own[0]
    if not names:  # The server's error has the nearest names, of a graph that is whole.
        whole = [graph for graph in _graphs(obj, rank) if graph["whole"]]
        graph = whole[-1]["id"] if whole else None
        obj.client.get(obj.path("/op"), name=words, rank=rank, graph=graph)
    raise UsageError(
        f"{len(names)} ops match {quoted(words)}: {', '.join(names[:5])}; give the full name",
        slug="no-such-op",
    )


def _names(obj: RunTarget, words: str, rank: int | None) -> list[str]:
    """The names of ops that match in the current graph, or else in the newest graph with a match:
    the graph of a step that has just begun may not have its parameters yet."""
    path = obj.path("/nodes")

    def matches(**graph: int) -> list[str]:
        answer = obj.client.get(path, query=words, rank=rank, limit=1000, **graph)
        return [str(node["name"]) for node in answer["nodes"]]

    if found := matches():
        return found
    graphs = _graphs(obj, rank)[-_MOST_GRAPHS:]
    others = (matches(graph=each["id"]) for each in reversed(graphs))
    return next(filter(None, others), [])


def _graphs(obj: RunTarget, rank: int | None) -> list[Any]:
    """The graphs of a rank, None: of the first one."""
    ranks = obj.client.get(obj.path())["ranks"]
    return next((each["graphs"] for each in ranks if rank in (None, each["rank"])), [])


@command_of(ctl)
@click.option("--scope", default="", help="Only this scope. Default: the whole graph.")
@rank_option
def graph(obj: RunTarget, scope: str, rank: int | None, as_json: bool) -> int:
    """Print one level of the graph."""
    answer = obj.client.get(obj.path("/graph/level"), scope=scope, rank=rank)
    show(answer, as_json, text.level_lines(answer))
    return 0


ctl.add_command(watch)
