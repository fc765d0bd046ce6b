"""``sonde mcp``: serves the tools for coding agents on standard input and output."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sonde.core.errors import UsageError
from sonde.integrations.missing_library import MissingLibraryError

EPILOG = """\b
Examples:
  claude mcp add sonde -- sonde mcp           let Claude Code use it
  sonde mcp --root ~/projects/train           scripts and runs below this directory

\b
In .mcp.json of a project:
  {"mcpServers": {"sonde": {"command": "sonde", "args": ["mcp"]}}}
"""


@click.command(epilog=EPILOG)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=".",
    help="The directory below which the tools may read, write and run scripts. Default: the "
    "current one.",
)
def mcp(root: Path) -> int:
    """Serve Sonde to coding agents, as a server of the Model Context Protocol.

    The server speaks on standard input and output until its client closes them; docs/agents.md
    describes its twelve tools. A script runs only when a client asks for it, under 'sonde run' or
    another command of Sonde.
    """
    if not root.is_dir():
        raise UsageError(f"--root {root} is not a directory", slug="mcp-path")
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "sonde mcp is started by a coding agent, not in a terminal; see 'sonde mcp --help'",
            slug="mcp-terminal",
        )
    try:
        from sonde.integrations.mcp.server import build_server
    except ImportError as error:
        raise MissingLibraryError("mcp", "mcp", error) from None
    build_server(root).run("stdio")
    return 0
