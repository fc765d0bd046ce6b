"""``sonde run``: runs an unmodified program under Sonde."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sonde.capture import environment as dump_variables
from sonde.capture.config import CaptureConfig, load_config
from sonde.capture.options import (
    DEFAULT_DIRECTORY,
    STORE_FULL_STEPS,
    config_from_options,
    parse_size,
)
from sonde.cli.diagnosed_program import (
    DiagnosedProgram,
    DiagnosisWords,
    diagnosis_command_options,
)
from sonde.cli.guard_options import GuardWords, guard_command_options, refuse_with_guard
from sonde.cli.json_output import json_option
from sonde.cli.mindspore_python import (
    find_mindspore,
    needs_mindspore,
    python_option,
    refuse_without_mindspore,
)
from sonde.cli.own_option import own_option
from sonde.cli.rank_options import RankWords, default_rank_checks, rank_command_options
from sonde.cli.run_deterministic import determinism_options, requested
from sonde.cli.script import ProgramNotFoundError
from sonde.cli.script_command import (
    ScriptCommand,
    net_name_of,
    observe_option,
    program_arguments,
    program_words,
    step_by_option,
)
from sonde.cli.script_run import Compiled, Observed, ScriptRun, StepBy
from sonde.cli.tracker_options import TrackerWords, tracker_command_option
from sonde.core.errors import UsageError
from sonde.core.observation_variables import DEBUGGER_ADDRESS, DUMP_CONFIG, ENABLE_DEBUGGER
from sonde.core.text.problem_line import ProblemLine
from sonde.debugger.settings import options_from_environment, unused_variables
from sonde.monitor.environment import OBSERVED, guard_from_environment, unused_guard

if TYPE_CHECKING:
    from sonde.cli.mindspore_run import MindSporeRun


@dataclass(frozen=True, slots=True)
class RunOptions(GuardWords, DiagnosisWords, RankWords, TrackerWords):
    """The command line as parsed by click."""

    dump_file: str | None
    directory: str | None
    dump_steps: str | None
    dump_ops: tuple[str, ...]
    stats: bool
    stats_every: int | None
    stats_keep: int | None
    overflow: bool
    graph: bool
    as_steps: bool
    dump_memory: str | None
    net_name: str | None
    step_by: StepBy
    observe: tuple[Observed, ...]
    deterministic: bool
    seed: int | None
    no_shuffle: bool
    no_dropout: bool
    compiled: Compiled
    diagnose: bool
    perturb_weights: bool
    python: str | None
    as_json: bool
    module: str | None
    program: tuple[str, ...]

    def given_for_torch(self) -> tuple[str, ...]:
        """The given options that MindSpore's own dump cannot fulfil."""
        given = {
            "--stats": self.stats,
            "--as-steps": self.as_steps,
            "--dump-memory": self.dump_memory is not None,
            "--step-by": self.step_by != "optimizer",
            "--observe": bool(self.observe),
            "--deterministic": self.deterministic,
            "--seed": self.seed is not None,
            "--no-shuffle": self.no_shuffle,
            "--no-dropout": self.no_dropout,
            "--compiled": self.compiled != "observe",
            "--guard": self.guard,
            "--diagnose": self.diagnose,
            "--check-ranks": self.check_ranks,
            "--log-to": bool(self.log_to),
            "--perturb-weights": self.perturb_weights,
        }
        return tuple(name for name, is_given in given.items() if is_given)

    def given_without_a_file(self) -> tuple[str, ...]:
        """The given options that cannot be combined with a configuration file."""
        given = {
            "--dump-to": self.directory is not None,
            "--dump-steps": self.dump_steps is not None,
            "--dump-ops": bool(self.dump_ops),
            "--stats": self.stats,
            "--overflow": self.overflow,
            "--graph": self.graph,
            "--as-steps": self.as_steps,
            "--net-name": self.net_name is not None,
        }
        return tuple(name for name, is_given in given.items() if is_given)


EPILOG = """\b
Examples:
  sonde run --stats train.py --epochs 3       statistics of every op's inputs and outputs
  sonde run --overflow train.py               the ops where NaN or Inf first appear
  sonde run --guard train.py                  keep the step that goes wrong, to run it again
  sonde run --overflow --diagnose train.py    also say why the training fails
  sonde run --log-to wandb train.py           signals and findings in a tracker
  sonde run --dump-to out --dump-steps '0|5-8' --dump-ops conv train.py
  sonde run --dump-to out --as-steps train.py cheap; tensors are computed when they are read
  sonde run --dump data_dump.json -m package.train --epochs 3
  torchrun --nproc-per-node 2 -m sonde run --dump-to out train.py
  torchrun --nproc-per-node 2 -m sonde run --check-ranks train.py
  sonde run --python .venv-mindspore --overflow train_mindspore.py

\b
Then show the dump:
  sonde show out
"""


@click.command(cls=ScriptCommand, epilog=EPILOG)
@click.option(
    "--dump",
    "dump_file",
    metavar="FILE",
    help="Dump as configured in this JSON file (docs/config.md). Default: $SONDE_DUMP_CONFIG, or "
    "$MINDSPORE_DUMP_CONFIG, if set.",
)
@click.option(
    "--dump-to",
    "directory",
    metavar="DIR",
    help="Dump to this directory, without a configuration file.",
)
@click.option(
    "--dump-steps",
    metavar="STEPS",
    help="Only these steps, such as '0|5-8|100-120'. A step ends with an optimizer's step(). "
    "Default: all.",
)
@click.option(
    "--dump-ops",
    metavar="PATTERN",
    multiple=True,
    help="Only these ops: a full name, a module (fc1) or module class (Linear), an operator "
    "(Conv2D, relu), part of an op type (conv), 'name-regex(.*fc1.*)'; '!PATTERN' excludes: "
    "docs/patterns.md. May be repeated.",
)
@click.option(
    "--stats",
    is_flag=True,
    help="Dump statistics (max, min, avg, l2norm, counts of NaN and Inf) instead of tensors: as "
    "Parquet files for 'sonde query' and 'sonde show --trend', without DuckDB as statistic.csv. "
    f"Default directory: ./{DEFAULT_DIRECTORY}.",
)
@click.option(
    "--stats-every",
    type=click.IntRange(min=1),
    metavar="K",
    help="With --stats: only every K-th step; the others run at full speed.",
)
@click.option(
    "--stats-keep",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --stats: keep the last N steps, and those around the first NaN or Inf of an op, in "
    f"full, and of older ones min, median and max; 0: keep all. Default: {STORE_FULL_STEPS}.",
)
@click.option(
    "--overflow",
    is_flag=True,
    help="Dump only ops with NaN or Inf in their outputs, and report the first. Default "
    f"directory: ./{DEFAULT_DIRECTORY}.",
)
@click.option(
    "--graph",
    is_flag=True,
    help="Write only the graphs (.ir, .pb) and the order of execution, and no values. Default "
    f"directory: ./{DEFAULT_DIRECTORY}. The same: $MS_DEV_SAVE_GRAPHS=1, with the directory "
    "$MS_DEV_SAVE_GRAPHS_PATH.",
)
@click.option(
    "--as-steps",
    is_flag=True,
    help="With --dump-to: keep the inputs and weights of each step instead of the tensors of its "
    "ops, which are computed when the dump is read (docs/dump-format.md). Much cheaper.",
)
@click.option(
    "--dump-memory",
    metavar="SIZE",
    help="The memory limit for tensors that wait to be written, such as 512M or 4G. At the limit "
    "the training waits; no tensor is dropped.",
)
@click.option(
    "--net-name",
    metavar="NAME",
    help="The name of the network, a folder of the dump. Default: the name of the script.",
)
@step_by_option
@observe_option
@determinism_options
@guard_command_options
@tracker_command_option
@rank_command_options
@click.option(
    "--diagnose",
    is_flag=True,
    help="Also say why the training fails, as 'sonde diagnose' does; exit code 1 if something is "
    "found.",
)
@diagnosis_command_options
@click.option(
    "--compiled",
    type=click.Choice(["observe", "interpret", "eager"]),
    default="observe",
    help="How code compiled by torch.compile is observed (docs/compiled.md): its own kernels, with "
    "observers at the selected ops (default); its graphs, op by op; or by running the selected "
    "steps uncompiled.",
)
@click.option(
    "--perturb-weights",
    is_flag=True,
    help="Change each weight by one or two units in its last place before the first step: 'sonde "
    "compare --perturbed' learns from such a run how rounding errors grow.",
)
@python_option
@own_option
@json_option
@program_arguments
def run(**given: Any) -> Callable[[], BaseException | None]:
    """Run SCRIPT unmodified and dump what its operators compute.

    The script ends with the exit code and the traceback that it would have without Sonde.
    Everything after SCRIPT (or after -m MODULE) is passed to the script.
    """
    options = RunOptions(**given)
    # The program runs outside click, which handles KeyboardInterrupt and broken pipes by itself.
    prepared: ScriptRun | MindSporeRun
    if options.python is not None or needs_mindspore(options.module, options.program):
        prepared = prepare_mindspore(options, os.environ)
    else:
        prepared = prepare(options, os.environ)
    if not options.as_json:
        return prepared.execute
    from sonde.cli.run_document import reported  # numpy is slow to import

    return partial(reported, prepared)


def _shown_program(name: str, arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The program as the debugger's page names it: for a replay the one that is replayed."""
    if name != "sonde.cli.replay_loop":
        return name, arguments
    from sonde.cli.replay_loop import replayed_program

    return replayed_program(arguments)


def prepare(options: RunOptions, environ: Mapping[str, str]) -> ScriptRun:
    """The run that the options describe; SondeError if they are invalid."""
    words = options.program if options.module is None else (options.module, *options.program)
    name, arguments = words[0], words[1:]
    config, note = _config(options, environ, net_name_of(name, options.module is not None))
    debugger = options_from_environment(environ)
    is_observed = config is not None or debugger is not None
    if options.log_to and not is_observed and not options.diagnose:
        options = replace(options, guard=True)
    guard = options.requested_guard()
    trackers = options.requested_trackers(is_found=guard is not None or options.diagnose)
    diagnosed = _requested_diagnosis(options, is_debugged=debugger is not None)
    ranks = options.requested_ranks()
    if ranks is None and debugger is not None:
        ranks = default_rank_checks(environ)
    why_unused = OBSERVED
    if guard is not None:
        refuse_with_guard(is_dumped=config is not None, is_debugged=debugger is not None)
        note, why_unused = None, "an option says how the training is guarded"
    elif config is None and debugger is None:
        guard, note = guard_from_environment(environ) or (None, note)
        why_unused = ""
    determinism = requested(
        options.deterministic, options.seed, options.no_shuffle, options.no_dropout
    )
    is_asked = determinism is not None or debugger is not None or diagnosed is not None
    if config is None and guard is None and (is_asked or ranks is not None):
        note = None
    if debugger is not None:
        script, shown_arguments = _shown_program(name, arguments)
        debugger = replace(debugger, script=script, arguments=shown_arguments)
    return ScriptRun(
        module=options.module,
        program=options.program,
        config=config,
        step_by=options.step_by,
        observe=options.observe,
        note=note,
        determinism=determinism,
        debugger=debugger,
        compiled=options.compiled,
        unused=[*_unused(options, environ), *unused_guard(environ, because=why_unused)],
        guard=guard,
        diagnosed=diagnosed,
        ranks=ranks,
        trackers=trackers,
        perturbs_weights=options.perturb_weights,
    )


def _requested_diagnosis(options: RunOptions, *, is_debugged: bool) -> DiagnosedProgram | None:
    if options.diagnose:
        return DiagnosedProgram(options.requested_diagnosis(), is_debugged=is_debugged)
    options.refuse_without_diagnose()
    return None


def prepare_mindspore(options: RunOptions, environ: Mapping[str, str]) -> MindSporeRun:
    """The run of a script that trains with MindSpore; SondeError if the options are invalid."""
    from sonde.cli.mindspore_run import MindSporeRun  # numpy is slow to import

    words = program_words(options.module, options.program)
    name = words[0] if options.module is None else options.module
    if options.python is None:
        refuse_without_mindspore(name)
    if not options.diagnose:
        options.refuse_without_diagnose()
    _refuse(options.given_for_torch(), "cannot be used for MindSpore, which dumps tensors only")
    python = find_mindspore(options.python or sys.executable)
    if options.module is None and not os.path.exists(name):
        raise ProgramNotFoundError(f"can't open file {name!r}: it does not exist")
    directory = DEFAULT_DIRECTORY if options.overflow else None
    plain = replace(options, overflow=False, directory=options.directory or directory)
    config, note = _config(plain, environ, net_name_of(name, options.module is not None))
    file = options.dump_file or next(filter(None, map(environ.get, DUMP_CONFIG)), None)
    is_own = options.dump_file is None and plain.directory is not None
    if is_own and config is not None and options.directory is None:
        note = f"dumping to {config.path}"
    return MindSporeRun(
        python,
        tuple(words),
        config,
        None if is_own or file is None else Path(file),
        note,
        (*_unused(options, environ), *_unused_with_mindspore(environ)),
    )


def _unused_with_mindspore(environ: Mapping[str, str]) -> list[str]:
    """A line about each variable that has an effect on programs of PyTorch only."""
    why = "the program trains with MindSpore"
    lines = unused_guard(environ, because=why)
    if options_from_environment(environ) is not None:
        name = next(name for name in (*DEBUGGER_ADDRESS, ENABLE_DEBUGGER) if environ.get(name))
        text = f"{name} has no effect, because {why}"
        lines.append(ProblemLine(text, slug="variable-unused"))
    return lines


def _config(
    options: RunOptions, environ: Mapping[str, str], net_name: str
) -> tuple[CaptureConfig | None, str | None]:
    """The configuration to capture with, and a note about its source to print.

    It comes from a file, from options, or from the file that the environment names, in this order.
    """
    memory = _memory_budget(options.dump_memory)
    _refuse_stats_options(options)
    if options.dump_file is not None:
        _refuse(options.given_without_a_file(), "cannot be used with --dump FILE")
        return load_config(options.dump_file, environ, memory_budget=memory), None
    if options.directory is not None or options.stats or options.overflow or options.graph:
        config = config_from_options(
            DEFAULT_DIRECTORY if options.directory is None else options.directory,
            environ,
            steps=_steps(options),
            ops=options.dump_ops,
            stats=options.stats,
            parquet=options.stats,
            full_steps=STORE_FULL_STEPS if options.stats_keep is None else options.stats_keep,
            overflow=options.overflow,
            graph=options.graph,
            as_steps=options.as_steps,
            net_name=net_name if options.net_name is None else options.net_name,
            memory_budget=memory,
        )
        return config, f"dumping to {config.path}" if options.directory is None else None
    _refuse(("--as-steps",) if options.as_steps else (), "needs --dump-to DIR")
    graph = "" if options.dump_ops else ", --graph"  # which takes no ops
    _refuse(options.given_without_a_file(), f"needs --dump-to DIR, --stats{graph} or --overflow")
    found = dump_variables.config_from_environment(environ, memory_budget=memory, net_name=net_name)
    if found is not None:
        return found
    _refuse(() if memory is None else ("--dump-memory",), "needs a dump: --dump or --dump-to")
    return None, (
        "nothing is dumped; use --stats, --overflow, --guard, --graph, --dump-to DIR or --dump FILE"
    )


def _refuse_stats_options(options: RunOptions) -> None:
    given = {
        "--stats-every": options.stats_every is not None,
        "--stats-keep": options.stats_keep is not None,
    }
    if not options.stats:
        _refuse(tuple(name for name, is_given in given.items() if is_given), "needs --stats")
    if options.stats_every is not None and options.dump_steps is not None:
        _refuse(("--stats-every",), "cannot be used with --dump-steps, which names the steps")


def _steps(options: RunOptions) -> str:
    if options.dump_steps is not None:
        return options.dump_steps
    return "all" if options.stats_every is None else f"all/{options.stats_every}"


def _unused(options: RunOptions, environ: Mapping[str, str]) -> list[str]:
    """A line about each variable that is set and cannot have an effect."""
    is_chosen = options.dump_file is not None or bool(options.given_without_a_file())
    names = [name for name in DUMP_CONFIG if environ.get(name)] if is_chosen else []
    why = "has no effect, because an option says what is dumped"
    lines: list[str] = [ProblemLine(f"{name} {why}", slug="variable-unused") for name in names]
    if not is_chosen:
        lines = dump_variables.unused_files(environ)
    return [*lines, *unused_variables(environ)]


def _refuse(options: Sequence[str], reason: str) -> None:
    if options:
        raise UsageError(f"{options[0]} {reason}", slug="usage")


def _memory_budget(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_size(text)
    except UsageError as error:
        raise UsageError(f"--dump-memory {error.message}", slug=error.slug) from None
