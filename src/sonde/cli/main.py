"""``sonde``: the group of commands, and how errors are reported."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence

import click

import sonde
from sonde import logs
from sonde.cli import json_output
from sonde.cli.script import end_as_python_would
from sonde.cli.script_command import ScriptCommand
from sonde.core.errors import SondeError, UsageError
from sonde.core.settings import nearest
from sonde.core.text.problem_line import ProblemLine

_log = logging.getLogger("sonde.cli")
COMMANDS = {
    "run": "Run an unmodified script and dump what its operators compute.",
    "show": "Show the contents of a dump.",
    "convert": "Convert a dump of an old format (.bin files, raw files of Ascend).",
    "compare": "Compare two runs, op by op, and name the first op at fault.",
    "params": "List the parameters of a network, or match those of two networks.",
    "ckpt": "Compare, check and convert checkpoints.",
    "query": "Ask the statistics of all steps of a run with SQL.",
    "dump": "Thin or remove old steps of a dump.",
    "ranks": "Compare the ranks of a distributed training in a dump.",
    "loss": "Compare two loss curves and report where and why they diverge.",
    "repeat": "Run a script twice and report the first op at which the runs differ.",
    "compile-check": "Check that the compiled code of a script computes the right values.",
    "diagnose": "Run an unmodified script and say why its training fails.",
    "profile": "Report where the time of a script goes, and what would make it faster.",
    "replay": "Execute a captured step again, and answer questions about it.",
    "verify": "Say whether changed code still fails on a captured step.",
    "debug": "Run an unmodified script under the debugger and control it from a browser.",
    "serve": "Run the debugger server, to which trainings connect; also: sonde start.",
    "view": "View dumps in the debugger's page, or check them for bad values.",
    "ctl": "Control the debugger from a terminal or a script.",
    "enable": "Let the environment variables take effect in plain 'python train.py'.",
    "disable": "Undo 'sonde enable'.",
    "status": "Say what is enabled, and what the environment variables would do.",
    "tune": "Search for the best hyper-parameters of a training command.",
    "mcp": "Let coding agents use Sonde: a server of the Model Context Protocol.",
    "skill": "Write SKILL.md, which teaches a coding agent to use Sonde.",
    "find": "Find how something that MindSpore's documents describe is done here.",
}
"""The commands. Each is the click command of that name in the module ``sonde.cli.<name>``, with
``_`` for ``-``.

If a command returns a function, that function is called outside click; it returns the exception
that the user's program raised (see ``cli.script``).
"""

ALIASES = {"start": "serve"}
"""Other names of commands: MindInsight's users type ``start``."""

EPILOG = """\b
Examples:
  sonde debug train.py              debug a training live, in a browser
  sonde run --overflow train.py     find the op where NaN or Inf first appear
  sonde run --stats train.py        record statistics of every operator, every step
  sonde show sonde_dump             show what was recorded
  sonde find LossMonitor            what to use for something of MindSpore or MindInsight

Every message ends with a name in brackets; docs/messages.md explains it under that heading.
"""


class CommandGroup(click.Group):
    """Imports a command when it is used, so that ``sonde --help`` starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = ALIASES.get(cmd_name, cmd_name)
        if known not in COMMANDS:
            hint = nearest(cmd_name, COMMANDS, "the commands are")
            raise UsageError(f"{cmd_name!r} is not a command{hint}", slug="usage")
        name = known.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"sonde.cli.{name}"), name)
        return command


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        python = ".".join(str(part) for part in sys.version_info[:3])
        click.echo(f"sonde {sonde.__version__} (python {python}, torch {_torch_version()})")
        ctx.exit()


def _torch_version() -> str:
    from importlib import metadata  # slow to import, and used only here

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

    Sonde runs an unmodified PyTorch script and records what every operator computes, in forward,
    backward and optimizer. The results of the script stay the same, bit for bit.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; 2 for an error, reported in one line each."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    logs.configure()
    _log.info("version %s, command: sonde %s", sonde.__version__, " ".join(words[:1]))
    if not _wants_json(words):
        return _run(words, as_json=False)
    json_output.reserve_output()
    try:
        return _run(words, as_json=True)
    finally:
        json_output.release_replaced_output()


def _wants_json(words: Sequence[str]) -> bool:
    """Whether ``--json`` is among the words of Sonde, before those of the user's program.

    Looked for before the words are parsed, because wrong words are reported as JSON, too.
    """
    if json_output.OPTION not in words:
        return False
    ours = words[: words.index("--")] if "--" in words else words
    if ours[0] in COMMANDS:
        command = group.get_command(click.Context(group), ours[0])
        if isinstance(command, ScriptCommand):
            ours, _ = command.split(list(ours[1:]))
    return json_output.OPTION in ours


def _run(words: list[str], *, as_json: bool) -> int:
    def end_with(line: str, slug: str | None, message: str, exit_code: int = 2) -> int:
        logs.say_errors(line)
        if as_json:
            json_output.print_error(slug, message, exit_code)
        return exit_code

    outcome = None
    try:
        result = group.main(words, "sonde", standalone_mode=False)
        if callable(result):
            outcome = result()
    except SondeError as error:
        return end_with(str(error), error.slug, error.message)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.UsageError as error:
        first = [word for word in words[:1] if word in {*COMMANDS, *ALIASES}]
        command = " ".join(["sonde", *first]) if error.ctx is None else error.ctx.command_path
        message = error.format_message().rstrip(".")
        text = f"{message[0].lower()}{message[1:]}; try '{command} --help'"
        return end_with(ProblemLine(text, slug="usage"), "usage", text)
    except click.ClickException as error:
        text = error.format_message()
        return end_with(ProblemLine(text, slug="usage"), "usage", text)
    except (click.Abort, KeyboardInterrupt):  # Ctrl-C in the user's program is in ``outcome``.
        return end_with("interrupted", None, "interrupted", 130)
    if outcome is not None:
        end_as_python_would(outcome)
    return result if isinstance(result, int) else 0
