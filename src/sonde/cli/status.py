"""``sonde status``: what is enabled, and what the environment variables would do now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from sonde.capture import environment as dump
from sonde.capture.config_text import describe
from sonde.cli import site_file
from sonde.cli.json_output import json_option, print_document
from sonde.core.errors import SondeError
from sonde.core.observation_variables import VARIABLES
from sonde.core.text.number_text import size_text
from sonde.core.text.terminal_text import printable
from sonde.debugger import settings as debugger
from sonde.logs import say_errors
from sonde.monitor import environment as monitor

EPILOG = """\b
Examples:
  sonde status                                    is it enabled, and which variables are set?
  MINDSPORE_DUMP_CONFIG=dump.json sonde status    is the file right, and what would be dumped?
"""

_OTHERS = ("MS_DEBUGGER_HOST", "MS_DEBUGGER_PORT", "MS_DEBUGGER_PARTIAL_MEM")


@click.command(epilog=EPILOG)
@json_option
def status(as_json: bool) -> int:
    """Say whether 'sonde enable' is in effect, which variables are set, and what each would do.

    Exit codes: 0, or 2 if a variable has a value that ends a program.
    """
    lines, problems = _variables(os.environ)
    if as_json:
        print_document(_json(lines, problems))
        return 2 if problems else 0
    for line in _enabled():
        click.echo(line)
    named = [f"{name}={os.environ[name]}" for name in _set_names(os.environ)]
    for line in (*(named or ["no variable is set"]), *lines):
        click.echo(printable(line))
    for problem in problems:
        say_errors(str(problem))
    return 2 if problems else 0


def _json(lines: Sequence[str], problems: Sequence[SondeError]) -> dict[str, Any]:
    files = site_file.present()
    return {
        "files": [{"path": str(path), "is_current": site_file.is_current(path)} for path in files],
        "is_enabled": bool(files) and site_file.has_effect(),
        "variables": {name: os.environ[name] for name in _set_names(os.environ)},
        "effects": list(lines),
        "problems": [{"slug": each.slug, "message": each.message} for each in problems],
    }


def _set_names(environ: Mapping[str, str]) -> list[str]:
    return [name for name in (*VARIABLES, *_OTHERS) if environ.get(name)]


def _enabled() -> Iterator[str]:
    files = site_file.present()
    if not files:
        yield "not enabled: the variables take effect under 'sonde run' and in sonde.train only"
        yield "'sonde enable' makes them take effect in plain 'python train.py'"
        return
    for path in files:
        age = "" if site_file.is_current(path) else " (of another Sonde; run 'sonde enable' again)"
        yield f"enabled by {path}{age}"
    if not site_file.has_effect():
        yield "but Python does not execute it; run 'sonde disable' and 'sonde enable'"


def _variables(environ: Mapping[str, str]) -> tuple[list[str], list[SondeError]]:
    """What the variables would do; the errors that would end a program."""
    lines: list[str] = []
    problems: list[SondeError] = []
    is_observed = False
    try:
        found = dump.config_from_environment(environ)
        if found is not None:
            is_observed = True
            config, _ = found
            lines.append(f"would dump: {describe(config)}")
    except SondeError as error:
        problems.append(error)
    try:
        options = debugger.options_from_environment(environ)
        if options is not None:
            is_observed = True
            memory = size_text(options.budget_bytes)
            lines.append(
                f"would connect to the debugger server at {options.address}, and keep values in at "
                f"most {memory} of memory"
            )
    except SondeError as error:
        problems.append(error)
    reason = monitor.OBSERVED if is_observed else ""
    try:
        guard = None if is_observed else monitor.guard_from_environment(environ)
        if guard is not None:
            lines.append(f"would guard every step, and write to {guard[0].directory}")
    except SondeError as error:
        problems.append(error)
    lines += [*dump.unused_files(environ), *monitor.unused_guard(environ, because=reason)]
    lines += [*debugger.unused_variables(environ)]
    return lines, problems
