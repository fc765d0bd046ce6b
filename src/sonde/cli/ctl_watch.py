"""``sonde ctl watch``: lists, adds, removes, saves and loads watchpoints."""

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
from sonde.cli.ctl_target import RunTarget, command_of, show
from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import write_whole
from sonde.core.files.input_file import read_input
from sonde.logs import say

_ID = re.compile(r"[a-z_]+")
_ASSIGNMENT = re.compile(r"([a-z_]+)=(.+)")


@click.group()
def watch() -> None:
    """List, add, remove, save and load watchpoints."""


@command_of(watch, "list")
def watch_list(obj: RunTarget, as_json: bool) -> int:
    """List the watchpoints."""
    answer = obj.client.get(obj.path("/watchpoints"))
    lines = list(map(text.watchpoint_line, answer["watchpoints"]))
    show(answer, as_json, lines or ["no watchpoints"])
    return 0


@command_of(watch, "add")
@click.argument("condition")
@click.argument("parameters", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--ops",
    multiple=True,
    metavar="PATTERN",
    help="Only these ops: a full name, a module (fc1) or module class (Linear), an operator "
    "(Conv2D, relu), ...; '!PATTERN' excludes: docs/patterns.md. May be repeated.",
)
@click.option("--name", default="", help="The name of the watchpoint.")
@click.option("--force", is_flag=True, help="Add it even if no op observed so far matches --ops.")
@click.option("--break-after", default=1, metavar="N", help="Pause at every N-th hit; 0: never.")
def watch_add(
    obj: RunTarget,
    condition: str,
    parameters: tuple[str, ...],
    ops: tuple[str, ...],
    name: str,
    force: bool,
    break_after: int,
    as_json: bool,
) -> int:
    """Add a watchpoint: a condition with parameters, or a quoted expression: 'abs_max > 10'."""
    from sonde.watch.conditions import EXPRESSION_NAMES

    if condition in EXPRESSION_NAMES:
        raise UsageError(
            f"{condition!r} is not a condition; compare it with a number, in quotes: "
            f"sonde ctl watch add '{condition} > 0'",
            slug="condition-unknown",
        )
    if condition == "expression":
        raise UsageError(
            "write the expression in place of the condition, in quotes: "
            f"sonde ctl watch add {quote(_expression_in(parameters))}",
            slug="condition-parameter",
        )
    spec = condition_of(condition, parameters)
    body = {"name": name, "conditions": [spec], "ops": ops, "break_after": break_after}
    path = obj.path("/watchpoints" if force else "/watchpoints?must_match=true")
    answer = obj.client.send("POST", path, body)
    show(answer, as_json, [text.watchpoint_line(answer)])
    if answer["warning"]:
        say(str(answer["warning"]))
    return 0


def condition_of(condition: str, parameters: Sequence[str]) -> dict[str, Any]:
    """A condition with its parameters, or an expression, in the form of the wire."""
    is_id = _ID.fullmatch(condition) is not None
    return {
        "id": condition if is_id else "expression",
        "parameters": dict(map(_assignment, parameters)),
        "expression": "" if is_id else condition,
    }


def _expression_in(words: Sequence[str]) -> str:
    """The text after the word ``expression``, or an example."""
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
            f"parameter {match[1]} must be a finite number (got {match[2]})",
            slug="condition-parameter",
        )
    return match[1], value


@command_of(watch, "remove")
@click.argument("number", type=int)
def watch_remove(obj: RunTarget, number: int, as_json: bool) -> int:
    """Remove the watchpoint with this number."""
    obj.client.send("DELETE", obj.path(f"/watchpoints/{number}"))
    show({"removed": number}, as_json, [f"removed {number}"])
    return 0


@command_of(watch, "recommended")
def watch_recommended(obj: RunTarget, as_json: bool) -> int:
    """Add the recommended watchpoints."""
    answer = obj.client.send("POST", obj.path("/watchpoints/recommended"))
    show(answer, as_json, map(text.watchpoint_line, answer["watchpoints"]))
    return 0


@command_of(watch, "save")
@click.argument("file")
def watch_save(obj: RunTarget, file: str, as_json: bool) -> int:
    """Save the watchpoints to a file; - is standard output."""
    saved = obj.client.get(obj.path("/watchpoints/file"))
    if file == "-":
        show(saved, True, ())
        return 0
    try:
        write_whole(Path(file), json.dumps(saved, indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", slug="usage") from None
    show(saved, as_json, [f"saved to {file}"])
    return 0


@command_of(watch, "load")
@click.argument("file")
def watch_load(obj: RunTarget, file: str, as_json: bool) -> int:
    """Replace all watchpoints by those of a file; - is standard input."""
    try:
        body = json.loads(sys.stdin.read() if file == "-" else read_input(Path(file)))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", slug="usage") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not a watchpoint file: {error}", slug="usage") from None
    try:
        answer = obj.client.send("PUT", obj.path("/watchpoints/file"), body)
    except UsageError as error:
        if error.slug != "bad-request":
            raise
        raise UsageError(
            f"{file} is not a watchpoint file: {error.message}", slug="usage"
        ) from None
    show(answer, as_json, map(text.watchpoint_line, answer["watchpoints"]))
    return 0
