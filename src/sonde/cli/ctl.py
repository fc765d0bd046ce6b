"""``sonde ctl``: drive the debugger from a terminal or a script."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import click

from sonde.cli import ctl_text as text
from sonde.cli.ctl_target import (
    F,
    Target,
    checked_seconds,
    json_option,
    rank_option,
    show,
    timeout_option,
)
from sonde.cli.ctl_watch import watch
from sonde.core.errors import UsageError
from sonde.core.graph import but_gradients

EPILOG = """\b
Examples:
  sonde ctl status
  sonde ctl watch add tensor_overflow
  sonde ctl watch add gradient_too_large abs_mean_gt=10
  sonde ctl watch add 'nan_count > 0 or abs_max > 10 * prev.abs_max' --ops relu
  sonde ctl continue --wait          until a watchpoint hits, or the end
  sonde ctl hits --json
  sonde ctl tensor log-op0 --index '[0, :10]'
  sonde ctl terminate

\b
Exit codes: 0 fine; 1 a watchpoint was hit (continue --wait, step, next, to, hits);
2 a mistake, or no server; 3 the training failed, was lost, or ended before it came to
the op; 4 time was up.
"""
HIT, FAILED, LATE = 1, 3, 4
_SHOWN: Final = 20
_MOST_GRAPHS: Final = 20
_HELD_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.5


@click.group(short_help="Drive the debugger from a terminal.", epilog=EPILOG)
@click.option("--server", metavar="URL", help="Of the server; your newest one here if not given.")
@click.option("--token", help="Of the server, if it asks for one.", envvar="SONDE_DEBUGGER_TOKEN")
@click.option("--run", help="The run, if there are several.")
@click.option(
    "--patience",
    default=0.0,
    callback=checked_seconds,
    help="Seconds to wait for a server and a training to be there; none if not given.",
)
@click.pass_context
def ctl(
    ctx: click.Context, server: str | None, token: str | None, run: str | None, patience: float
) -> None:
    """Control a training that is connected to the debugger, and ask about it.

    Everything the page does goes through the same HTTP interface.
    """
    ctx.obj = Target(server, token, run, patience)


@ctl.command()
@json_option
@click.pass_obj
def status(obj: Target, as_json: bool) -> int:
    """The runs, and where they are."""
    answer = {"runs": obj.runs()}
    lines = [line for run in answer["runs"] for line in text.run_lines(run)]
    show(answer, as_json, lines or ["no training has connected yet"])
    return 0


def _control(
    obj: Target, as_json: bool, wait: bool, timeout: float, command: str, **more: object
) -> int:
    run = _settled(obj, timeout if wait else 0.0, {"command": command, **more})
    show(run, as_json, text.run_lines(run))
    code = _outcome(run, more.get("rank")) if wait else 0
    if code == 0 and command == "to" and _is_over(_ranks(run, more.get("rank"))):
        click.echo(f"sonde: the training ended before it came to {more['op']}", err=True)
        return FAILED
    return code


def _settled(obj: Target, seconds: float, body: dict[str, object]) -> Any:
    """The run after the control, once it stands still or ``seconds`` are over; a server holds no
    question for longer than a while."""
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
    """How it went with the rank of this number; None: with all of them."""
    ranks = _ranks(run, number)
    if _is_over(ranks):
        return 0 if all(rank["exit_code"] == 0 for rank in ranks) else FAILED
    if not _is_running(ranks):
        return HIT if any(rank["reason"] == "hit" for rank in ranks) else 0
    click.echo("sonde: time is up, and the training still runs", err=True)
    return LATE


def _control_options(wait: bool) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in (
            json_option,
            rank_option,
            timeout_option,
            click.option(
                "--wait/--no-wait", default=wait, help="Return when the training stands again."
            ),
        ):
            command = option(command)
        return command

    return add


@ctl.command("continue")
@_control_options(wait=False)
@click.pass_obj
def continue_(obj: Target, wait: bool, timeout: float, rank: int | None, as_json: bool) -> int:
    """Go on, until a watchpoint is hit or the training ends."""
    return _control(obj, as_json, wait, timeout, "continue", rank=rank)


@ctl.command()
@_control_options(wait=True)
@click.pass_obj
def pause(obj: Target, wait: bool, timeout: float, rank: int | None, as_json: bool) -> int:
    """Stand still at the next op."""
    return _control(obj, as_json, wait, timeout, "pause", rank=rank)


@ctl.command()
@click.argument("steps", type=click.IntRange(1), default=1)
@_control_options(wait=True)
@click.pass_obj
def step(
    obj: Target, steps: int, wait: bool, timeout: float, rank: int | None, as_json: bool
) -> int:
    """Run so many steps, 1 if not given."""
    return _control(obj, as_json, wait, timeout, "step", steps=steps, rank=rank)


@ctl.command("next")
@_control_options(wait=True)
@click.pass_obj
def next_(obj: Target, wait: bool, timeout: float, rank: int | None, as_json: bool) -> int:
    """Run one op."""
    return _control(obj, as_json, wait, timeout, "next", rank=rank)


@ctl.command()
@click.argument("op")
@_control_options(wait=True)
@click.pass_obj
def to(obj: Target, op: str, wait: bool, timeout: float, rank: int | None, as_json: bool) -> int:
    """Run to an op, or the first one of a scope: the full name, or as much as only one has."""
    return _control(obj, as_json, wait, timeout, "to", op=op, rank=rank)


@ctl.command()
@json_option
@click.pass_obj
def terminate(obj: Target, as_json: bool) -> int:
    """End the training, by an exception in it that lets it tidy up."""
    return LATE if _control(obj, as_json, True, 60.0, "terminate") == LATE else 0


@ctl.command()
@timeout_option
@json_option
@click.pass_obj
def recheck(obj: Target, timeout: float, as_json: bool) -> int:
    """Check the watchpoints over all steps of a dump, or now, of what a training has at hand."""
    path = obj.path(f"/recheck?wait_seconds={timeout}")
    run = obj.client.send("POST", path, {}, timeout)
    check = run["recheck"]
    state = "so far, and goes on" if check["running"] else "in all"
    tensors, hits = text.counted(check["done"], "tensor"), text.counted(check["hits"], "hit")
    show(run, as_json, [f"{tensors} checked {state}, {hits}", *check["notes"]])
    return LATE if check["running"] else HIT if check["hits"] else 0


@ctl.command()
@click.option("--step", type=int, help="Of one step.")
@click.option("--graph", type=int, help="Of the steps that ran one graph.")
@click.option("--limit", default=_SHOWN, show_default=True, help="How many to print.")
@rank_option
@json_option
@click.pass_obj
def hits(
    obj: Target, step: int | None, graph: int | None, limit: int, rank: int | None, as_json: bool
) -> int:
    """What watchpoints found, in execution order."""
    query = {"step": step, "graph": graph, "rank": rank}
    answer = obj.client.get(obj.path("/hits"), **query, limit=limit)
    show(answer, as_json, text.hits_lines(answer))
    # What is printed may be undecided, and a hit come later.
    true_hits = obj.client.get(obj.path("/hits"), **query, verdict="hit", limit=1)
    return HIT if true_hits["total"] else 0


@ctl.command()
@click.argument("op")
@click.option("--index", default="", help="Which elements, such as '[0, :, 3:5]'.")
@click.option("--io", type=click.Choice(["input", "output"]), default="output", show_default=True)
@click.option("--slot", type=click.IntRange(0), default=0, show_default=True)
@click.option("--step", type=int, help="The latest if not given.")
@rank_option
@json_option
@click.pass_obj
def tensor(
    obj: Target,
    op: str,
    index: str,
    io: str,
    slot: int,
    step: int | None,
    rank: int | None,
    as_json: bool,
) -> int:
    """Statistics of a tensor, and with --index its elements."""
    query = {"op": _op(obj, op, rank), "io": io, "slot": slot, "step": step, "rank": rank}
    summary = obj.client.get(obj.path("/tensor/summary"), **query)
    answer, lines = {"summary": summary}, list(text.summary_lines(summary))
    if index:
        answer["table"] = obj.client.get(obj.path("/tensor/table"), index=index, **query)
        lines.extend(text.table_lines(answer["table"]))
    show(answer, as_json, lines)
    return 0


def _op(obj: Target, words: str, rank: int | None) -> str:
    """The full name of the op that is meant."""
    names = _names(obj, words, rank)
    exact = [name for name in names if name == words] or [
        name for name in names if name.endswith(f"/{words}")
    ]
    own = but_gradients(exact or names)
    if len(own) == 1:
        return own[0]
    what = (
        f"{len(names)} ops match {words!r}: {', '.join(names[:5])}"
        if names
        else (f"no op matches {words!r}")
    )
    raise UsageError(f"{what}; give the full name", slug="no-such-op")


def _names(obj: Target, words: str, rank: int | None) -> list[str]:
    """Of the ops that match in the graph that runs, or else in the newest that has any: a step
    that has just begun may have none of its parameters yet."""
    path = obj.path("/nodes")

    def matches(**graph: int) -> list[str]:
        answer = obj.client.get(path, query=words, rank=rank, limit=1000, **graph)
        return [str(node["name"]) for node in answer["nodes"]]

    if found := matches():
        return found
    ranks = obj.client.get(obj.path())["ranks"]
    graphs: list[Any] = next((each["graphs"] for each in ranks if rank in (None, each["rank"])), [])
    others = (matches(graph=each["id"]) for each in reversed(graphs[-_MOST_GRAPHS:]))
    return next(filter(None, others), [])


@ctl.command()
@click.option("--scope", default="", help="What is inside this one; the whole if not given.")
@rank_option
@json_option
@click.pass_obj
def graph(obj: Target, scope: str, rank: int | None, as_json: bool) -> int:
    """The graph, level by level."""
    answer = obj.client.get(obj.path("/graph/level"), scope=scope, rank=rank)
    show(answer, as_json, text.level_lines(answer))
    return 0


ctl.add_command(watch)
