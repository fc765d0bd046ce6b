"""``sonde skill``: writes SKILL.md, which teaches a coding agent to use Sonde."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from sonde.cli.json_output import json_option, print_document
from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import write_whole

FILE = "SKILL.md"
DEFAULT_DIRECTORY = Path(".claude/skills/sonde")

EPILOG = """\b
Examples:
  sonde skill                            writes .claude/skills/sonde/SKILL.md
  sonde skill ~/.codex/skills/sonde      for another agent, or for all projects
  sonde skill -                          prints it, for AGENTS.md
"""


@click.command(epilog=EPILOG)
@click.argument("directory", metavar="[DIR]", default=str(DEFAULT_DIRECTORY))
@click.option("--force", is_flag=True, help="Replace a SKILL.md with another content.")
@json_option
def skill(directory: str, force: bool, as_json: bool) -> int:
    """Write SKILL.md to DIR: which command answers which symptom, how to read it, how to fix it.

    DIR is a folder of skills of a coding agent; - prints the file.
    """
    text = skill_text()
    if directory == "-":
        if as_json:
            print_document({"path": None, "text": text})
        else:
            click.echo(text, nl=False)
        return 0
    path = Path(directory) / FILE
    if path.exists() and not force and _read(path) != text:
        raise UsageError(f"{path} exists with another content; --force replaces it", slug="usage")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", slug="usage") from None
    if as_json:
        print_document({"path": str(path), "text": text})
    else:
        click.echo(f"wrote {path}")
    return 0


def skill_text() -> str:
    """The content of the file."""
    return (resources.files("sonde.cli") / "skill.md").read_text("utf-8")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", slug="usage") from None
