"""``sonde enable``: makes the environment variables take effect in plain ``python train.py``."""

from __future__ import annotations

import click

from sonde.cli import site_file
from sonde.cli.json_output import json_option, print_document
from sonde.core.errors import UsageError

EPILOG = """\b
Examples:
  sonde enable                                    once for each Python environment
  MINDSPORE_DUMP_CONFIG=dump.json python train.py
  ENABLE_MS_DEBUGGER=1 torchrun --nproc-per-node 2 train.py
  sonde status                                    what is enabled, and what the variables would do
  sonde disable                                   undo it
"""


@click.command(epilog=EPILOG)
@json_option
def enable(as_json: bool) -> int:
    """Let SONDE_DUMP_CONFIG, MINDSPORE_DUMP_CONFIG, SONDE_DEBUGGER_HOST, SONDE_DEBUGGER_PORT and
    ENABLE_MS_DEBUGGER take effect in every program of this Python environment that trains.

    Writes one file into site-packages. Where none of the variables is set, it has no effect and no
    cost; a program that is observed is observed as under 'sonde run'.
    """
    before = [path for path in site_file.present() if site_file.is_current(path)]
    path = before[0] if before else site_file.write()
    if not site_file.has_effect():
        if not before:
            path.unlink(missing_ok=True)
        raise UsageError(
            f"Python does not execute {path}; start programs with 'sonde run'",
            slug="enable-without-effect",
        )
    if as_json:
        print_document({"path": str(path), "was_enabled": bool(before)})
        return 0
    click.echo(f"{'already enabled:' if before else 'wrote'} {path}")
    click.echo(
        "the variables take effect in programs of this Python environment that import torch and "
        "train; 'sonde status' says what they would do, 'sonde disable' undoes it"
    )
    return 0
