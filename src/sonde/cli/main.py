"""``sonde``: the group of commands, and what becomes of errors."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

import click

import sonde
from sonde import logs
from sonde.cli.script import end_as_python_would
from sonde.core.errors import SondeError, UsageError

COMMANDS = {
    "run": "Run a script, unchanged, and dump what its operators compute.",
    "show": "Show what is in a dump.",
    "compare": "Compare two runs, op by op, and name the first op at fault.",
    "params": "List the parameters of a network, or pair those of two.",
    "ckpt": "Compare, check and convert checkpoints.",
    "loss": "Compare two loss curves and say where and why they part.",
    "repeat": "Run a script twice and say from which op on the runs differ.",
    "compile-check": "Check that the compiled code of a script computes what it should.",
    "profile": "Say where the time of a script goes, and what would make it faster.",
    "debug": "Run a script, unchanged, under the debugger, and drive it from a browser.",
    "serve": "Serve the debugger's page, for trainings that connect to it.",
    "view": "Look at dumps in the debugger's page, or check them.",
    "ctl": "Drive the debugger from a terminal or a script.",
    "tune": "Search for the best hyper-parameters of a training command.",
}
"""Each is the click command of that name in the module ``sonde.cli.<name>``, with ``_`` for ``-``.

A command that returns a function wants it called outside click; the function returns what a
user's program raised (see ``cli.script``).
"""

EPILOG = """\b
Examples:
  sonde debug train.py              look at it live, in a browser
  sonde run --overflow train.py     find the op where NaN or Inf first appear
  sonde run --stats train.py        statistics of every operator, every step
  sonde show sonde_dump             what was found

Every message ends with a word in brackets that is a heading of docs/messages.md.
"""


class CommandGroup(click.Group):
    """Commands are imported when they are asked for, so that none pays for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            close = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(COMMANDS)}"
            raise UsageError(f"{cmd_name!r} is not a command; {hint}", slug="usage")
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"sonde.cli.{name}"), name)
        return command


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        python = ".".join(str(part) for part in sys.version_info[:3])
        click.echo(f"sonde {sonde.__version__} (python {python}, torch {_torch_version()})")
        ctx.exit()


def _torch_version() -> str:
    from importlib import metadata  # slow to import, and wanted only here

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "not installed"


@click.group(
    cls=CommandGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions of Sonde, Python and torch.",
)
def group() -> None:
    """See what a training run computes, and where the numbers first go wrong.

    Sonde runs a PyTorch script as it is and records what every operator computes, in forward,
    backward and optimizer. The results stay the same, bit for bit.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 2 for every mistake of the user's, said in a line each."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    outcome = None
    logs.configure()
    try:
        result = group.main(words, "sonde", standalone_mode=False)
        if callable(result):
            outcome = result()
    except SondeError as error:
        return _complain(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.UsageError as error:
        command = " ".join(["sonde", *(word for word in words[:1] if word in COMMANDS)])
        message = error.format_message().rstrip(".")
        return _complain(f"{message[0].lower()}{message[1:]}; try '{command} --help' [usage]")
    except click.ClickException as error:
        return _complain(f"{error.format_message()} [usage]")
    except (click.Abort, KeyboardInterrupt):  # A program's own is in what was returned.
        return _complain("interrupted", exit_code=130)
    if outcome is not None:
        end_as_python_would(outcome)
    return result if isinstance(result, int) else 0


def _complain(text: str, *, exit_code: int = 2) -> int:
    for line in text.splitlines():
        print(f"sonde: {line}", file=sys.stderr)
    return exit_code
