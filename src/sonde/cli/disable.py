"""``sonde disable``: undoes ``sonde enable``."""

from __future__ import annotations

import click

from sonde.cli import site_file
from sonde.cli.json_output import json_option, print_document

EPILOG = """\b
Examples:
  sonde disable         the variables then take effect under sonde run only
"""


@click.command(epilog=EPILOG)
@json_option
def disable(as_json: bool) -> int:
    """Remove the file that 'sonde enable' wrote; 'sonde run' and 'sonde debug' still work."""
    removed = site_file.remove()
    if as_json:
        print_document({"removed": [str(path) for path in removed]})
        return 0
    for path in removed:
        click.echo(f"removed {path}")
    if not removed:
        click.echo("nothing to remove: this Python environment is not enabled")
    return 0
