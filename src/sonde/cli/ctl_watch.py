"""``sonde ctl watch``: watchpoints."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from shlex import quote
from typing import Any

import click

from sonde.cli import ctl_text as text
from sonde.cli.ctl_target import Target, json_option, show
from sonde.core.errors import UsageError

_ID = re.compile(r"[a-z_]+")
_ASSIGNMENT = re.compile(r"([a-z_]+)=(.+)")


@click.group()
def watch() -> None:
    """Watchpoints: what to look at, and when to stop."""


@watch.command("list")
@json_option
@click.pass_obj
def watch_list(obj: Target, as_json: bool) -> int:
    """The watchpoints there are."""
    answer = obj.client.get(obj.path("/watchpoints"))
    lines = list(map(text.watchpoint_line, answer["watchpoints"]))
    show(answer, as_json, lines or ["no watchpoints"])
    return 0


@watch.command("add")
@click.argument("condition")
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--ops",
    multiple=True,
    metavar="PATTERN",
    help="Of these ops only; may be repeated, '!PATTERN' leaves out.",
)
@click.option("--name", default="", help="What to call it.")
@click.option("--force", is_flag=True, help="Also if no op seen so far matches --ops.")
@click.option("--break-after", default=1, metavar="N", help="Stop at every N-th hit; 0: never.")
@json_option
@click.pass_obj
def watch_add(
    obj: Target,
    condition: str,
    parameters: tuple[str, ...],
    ops: tuple[str, ...],
    name: str,
    force: bool,
    break_after: int,
    as_json: bool,
) -> int:
    """Add one: a condition with its parameters, or an expression in quotes: 'abs_max > 10'."""
    from sonde.conditions import EXPRESSION_NAMES

    if condition in EXPRESSION_NAMES:
        raise UsageError(
            f"{condition!r} is no condition; compare it, in quotes: "
            f"sonde ctl watch add '{condition} > 0'",
            slug="condition-unknown",
        )
    if condition == "expression":
        raise UsageError(
            "an expression is written in place of the condition, in quotes: "
            f"sonde ctl watch add {quote(_expression_in(parameters))}",
            slug="condition-parameter",
        )
    spec = condition_of(condition, parameters)
    body = {"name": name, "conditions": [spec], "ops": ops, "break_after": break_after}
    path = obj.path("/watchpoints" if force else "/watchpoints?must_match=true")
    answer = obj.client.send("POST", path, body)
    show(answer, as_json, [text.watchpoint_line(answer)])
    if answer["warning"]:
        click.echo(f"sonde: {answer['warning']}", err=True)
    return 0


def condition_of(condition: str, parameters: Sequence[str]) -> dict[str, Any]:
    """A condition by its id with its parameters, or an expression, as the wire has it."""
    is_id = _ID.fullmatch(condition) is not None
    return {
        "id": condition if is_id else "expression",
        "parameters": dict(map(_assignment, parameters)),
        "expression": "" if is_id else condition,
    }


def _expression_in(words: Sequence[str]) -> str:
    """What was written after the word ``expression``, or an example."""
    return " ".join(words).removeprefix("expression=") or "nan_count > 0 or abs_max > 10"


def _assignment(word: str) -> tuple[str, float]:
    match = _ASSIGNMENT.fullmatch(word)
    try:
        value = float(match[2]) if match is not None else None
    except ValueError:
        value = None
    if match is None or value is None:
        raise UsageError(f"{word!r} is not a parameter such as max_gt=10", slug="usage")
    if not isfinite(value):
        raise UsageError(
            f"the parameter {match[1]} is {match[2]}; it must be a finite number",
            slug="condition-parameter",
        )
    return match[1], value


@watch.command("remove")
@click.argument("number", type=int)
@json_option
@click.pass_obj
def watch_remove(obj: Target, number: int, as_json: bool) -> int:
    """Remove the one with this number."""
    obj.client.send("DELETE", obj.path(f"/watchpoints/{number}"))
    show({"removed": number}, as_json, [f"removed {number}"])
    return 0


@watch.command("recommended")
@json_option
@click.pass_obj
def watch_recommended(obj: Target, as_json: bool) -> int:
    """Add the recommended ones."""
    answer = obj.client.send("POST", obj.path("/watchpoints/recommended"))
    show(answer, as_json, map(text.watchpoint_line, answer["watchpoints"]))
    return 0


@watch.command("save")
@click.argument("file")
@json_option
@click.pass_obj
def watch_save(obj: Target, file: str, as_json: bool) -> int:
    """Write them to a file; - is the terminal."""
    saved = obj.client.get(obj.path("/watchpoints/file"))
    if file == "-":
        show(saved, True, ())
        return 0
    try:
        Path(file).write_text(json.dumps(saved, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", slug="usage") from None
    show(saved, as_json, [f"saved to {file}"])
    return 0


@watch.command("load")
@click.argument("file")
@json_option
@click.pass_obj
def watch_load(obj: Target, file: str, as_json: bool) -> int:
    """Have those of a file instead of what is there; - is standard input."""
    try:
        body = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", slug="usage") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not a file of watchpoints: {error}", slug="usage") from None
    try:
        answer = obj.client.send("PUT", obj.path("/watchpoints/file"), body)
    except UsageError as error:
        if error.slug != "bad-request":
            raise
        why = error.message.removeprefix("the body: ")
        raise UsageError(f"{file} is not a file of watchpoints: {why}", slug="usage") from None
    show(answer, as_json, map(text.watchpoint_line, answer["watchpoints"]))
    return 0
