"""``sonde replay``: executes a captured step again, and answers questions about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from sonde.capture.options import DEFAULT_DIRECTORY, config_from_options
from sonde.cli.compile_check import AGREES, DEVIATES, FAILED
from sonde.cli.json_output import (
    json_file_option,
    json_option,
    print_document,
    write_document,
)
from sonde.cli.own_option import own_option
from sonde.cli.replay_text import as_document, finding_lines, version_lines
from sonde.cli.step_modules import ModuleOptions, found_modules, module_options, open_step
from sonde.core.errors import UsageError
from sonde.core.finding import Finding
from sonde.logs import say

if TYPE_CHECKING:
    from sonde.adapters.torch.replay.questions.step_replay import StepReplay
    from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
    from sonde.capture.config import CaptureConfig

EXACT, DIFFERS = 0, 1
MOST_TIMES = 1000

EPILOG = """\b
Examples:
  sonde replay sonde_steps/step_412.rank_0            is it exact, and where does NaN begin?
  sonde replay sonde_steps --debug                    step through it in the debugger's page
  sonde replay sonde_steps --fp64 --times 5           is it rounding? is it deterministic?
  sonde replay sonde_steps --rows                     which rows of the batch suffice?
  sonde replay sonde_steps --stats --dump-to out      statistics of every op of the step

\b
Exit codes: 0 executed (and, without a question, exact); 1 not exact; 2 it could not be executed.
docs/replay.md explains each question.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command line but those that say where the network comes from."""

    times: int | None
    fp64: bool
    eager: bool
    compiled: bool
    rows: bool
    no_dropout: bool
    settings: tuple[str, ...]
    stats: bool
    overflow: bool
    dump_to: str | None
    debug: bool
    port: int | None
    exits: bool
    compile_check: bool
    as_json: bool
    json_file: str | None

    @property
    def dumps(self) -> bool:
        return self.stats or self.overflow or self.dump_to is not None

    def questions(self) -> list[str]:
        """The options that are questions about the step."""
        given = {
            "--times": self.times is not None,
            "--fp64": self.fp64,
            "--eager": self.eager,
            "--compiled": self.compiled,
            "--rows": self.rows,
            "--no-dropout": self.no_dropout,
            "--set": bool(self.settings),
        }
        return [name for name, is_given in given.items() if is_given]

    def check(self) -> None:
        """UsageError for options that exclude each other."""
        alone = {"--debug": self.debug, "--compile-check": self.compile_check}
        others = [*self.questions(), *(["--dump-to"] if self.dumps else [])]
        others += ["--json-file"] if self.json_file is not None else []
        for name, is_given in alone.items():
            if is_given and others:
                raise UsageError(f"{name} cannot be combined with {others[0]}", slug="usage")
        if self.debug and self.compile_check:
            raise UsageError("--debug cannot be combined with --compile-check", slug="usage")
        if self.eager and self.compiled:
            raise UsageError("--eager cannot be combined with --compiled", slug="usage")
        for name, is_given in (("--port", self.port is not None), ("--exit", self.exits)):
            if is_given and not self.debug:
                raise UsageError(f"{name} needs --debug", slug="usage")


@click.command(epilog=EPILOG)
@click.argument("directory", metavar="STEP")
@module_options
@click.option(
    "--times",
    type=click.IntRange(2, MOST_TIMES),
    metavar="N",
    help="Is it deterministic? Execute it N times and compare bit for bit.",
)
@click.option("--fp64", is_flag=True, help="Is it rounding? Execute it in float64.")
@click.option("--eager", is_flag=True, help="Is it the compiler? Execute it uncompiled.")
@click.option("--compiled", is_flag=True, help="Execute it compiled by torch.compile.")
@click.option("--rows", is_flag=True, help="Which rows of the batch suffice? Find a smallest set.")
@click.option("--no-dropout", is_flag=True, help="Is it dropout? Execute it without dropout.")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Change a setting of the optimizer (lr=1e-4), and judge the weights after its update; or "
    "an attribute of a module (encoder.norm.eps=1e-3). May be repeated.",
)
@click.option("--stats", is_flag=True, help="Dump statistics of every op of the step.")
@click.option("--overflow", is_flag=True, help="Dump the ops with NaN or Inf in their outputs.")
@click.option(
    "--dump-to",
    metavar="DIR",
    help=f"Dump the tensors of every op to this directory. Default of --stats and --overflow: "
    f"./{DEFAULT_DIRECTORY}.",
)
@click.option("--debug", is_flag=True, help="Step through it in the debugger's page.")
@click.option("--port", type=int, help="With --debug: the port of the page.")
@click.option(
    "--exit", "exits", is_flag=True, help="With --debug: end when the debugger ends the step."
)
@click.option(
    "--compile-check", is_flag=True, help="Check what torch.compile makes of it, op by op."
)
@json_option
@json_file_option
@own_option
def replay(
    directory: str,
    factory: str | None,
    script: str | None,
    runs_setup: bool,
    trust: bool,
    **given: Any,
) -> int | Callable[[], BaseException | None]:
    """Execute the captured step STEP again, forward and backward, in this process.

    STEP is a directory such as sonde_steps/step_412.rank_0, or one with exactly one such directory.
    Without an option, says whether the results are those of the training, bit for bit, and where
    NaN and Inf begin. Nothing of yours is changed.
    """
    asked = Asked(**given)
    asked.check()
    options = ModuleOptions(factory, script, runs_setup, trust)
    config = _dump_config(asked) if asked.dumps else None
    step = open_step(directory, options)
    if asked.debug:
        return _debug(step, options, asked)
    return _executed(step, options, asked, config)


def _executed(
    step: CapturedStep, options: ModuleOptions, asked: Asked, config: CaptureConfig | None
) -> int:
    from sonde.adapters.torch.replay.questions.step_replay import StepReplay
    from sonde.adapters.torch.replay.storage.environment import with_flags

    for line in version_lines(step):
        say(line)
    with found_modules(step, options) as found, with_flags(step.manifest.flags):
        replaying = StepReplay(step, found.modules)
        if asked.compile_check:
            return _check_compiled(replaying, as_json=asked.as_json)
        if not asked.as_json:
            print(f"step {step.manifest.step} of rank {step.manifest.rank}: {_why(replaying)}")
        findings, code = _answers(replaying, asked)
        if not asked.as_json:
            for finding in findings:
                print("\n".join(finding_lines(finding)))
        if config is not None:
            from sonde.adapters.torch.replay_dump import dump_step

            dump_step(replaying, config)
    document = as_document(step, found.way, findings)
    write_document(document, as_json=asked.as_json, json_file=asked.json_file)
    return code


def _check_compiled(replaying: StepReplay, *, as_json: bool) -> int:
    from sonde.adapters.torch.replay.questions.compiled_check import check_compiled
    from sonde.cli import compile_check_text

    verdict = check_compiled(replaying, say)
    if as_json:
        print_document(compile_check_text.as_document(verdict))
    else:
        print("\n".join(compile_check_text.as_lines(verdict)))
    if not verdict.agrees:
        return DEVIATES
    return AGREES if verdict.is_complete else FAILED


def _why(replaying: StepReplay) -> str:
    trigger = replaying.step.manifest.trigger
    return "kept without a trigger" if trigger is None else f"kept because {trigger.text}"


def _answers(replaying: StepReplay, asked: Asked) -> tuple[list[Finding], int]:
    """The findings of the questions; without one, whether the step is exact."""
    found: list[Finding] = []
    if not asked.questions() and not asked.dumps:
        replayed, found = replaying.is_exact()
        is_same = replayed.is_exact or replayed.plain.error is not None
        return found, EXACT if is_same else DIFFERS
    if asked.times is not None:
        found.append(replaying.is_deterministic(asked.times))
    if asked.eager or asked.compiled:
        found.append(replaying.is_compiler("eager" if asked.eager else "compiled"))
    if asked.no_dropout:
        found.append(replaying.is_dropout())
    if asked.rows:
        found.append(replaying.needed_rows())
    if asked.settings:
        from sonde.adapters.torch.replay.questions.settings import with_settings

        found.append(with_settings(replaying, asked.settings))
    if asked.fp64:  # last: it converts the networks in place
        found.append(replaying.is_rounding())
    return found, EXACT


def _dump_config(asked: Asked) -> CaptureConfig:
    return config_from_options(
        DEFAULT_DIRECTORY if asked.dump_to is None else asked.dump_to,
        os.environ,
        stats=asked.stats,
        overflow=asked.overflow,
        net_name="replay",
    )


def _debug(
    step: CapturedStep, options: ModuleOptions, asked: Asked
) -> Callable[[], BaseException | None]:
    """What `sonde debug` does, with a program that executes the step again and again."""
    from sonde.cli.debug import debug

    # The same step again and again is no training that could be diagnosed.
    words = ["--step-by", "manual", "--recommended", "--no-diagnose"]
    words += [] if asked.port is None else ["--port", str(asked.port)]
    words += ["--exit"] if asked.exits else []
    words += ["--json"] if asked.as_json else []
    program = ["-m", "sonde.cli.replay_loop", str(step.path), *options.words()]
    found: Callable[[], BaseException | None] = debug.main(
        [*words, *program], "sonde replay", standalone_mode=False
    )
    return found
