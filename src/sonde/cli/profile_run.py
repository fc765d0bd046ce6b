"""Runs a program under ``sonde profile``: in this process, in several, or in variants."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sonde.cli.json_output import print_document
from sonde.cli.script import run_program
from sonde.cli.script_command import program_words
from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.sink import Sink, StepEnd, TensorView
from sonde.logs import say, say_errors, say_result

if TYPE_CHECKING:
    from sonde.profile.condition import ProfileCondition
    from sonde.profile.document import Profile
    from sonde.profile.record.recorder import ProfileRecorder
    from sonde.profile.record.window import StepWindow

FAILED_CONDITION = 3


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The command line as parsed by click."""

    steps: str
    directory: str
    stop: bool
    memory: bool
    variants: str | None
    rounds: int
    ranks: int
    fail_if: str | None
    as_trial: str | None
    quiet: bool
    as_json: bool
    module: str | None
    program: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the program at the end of a command line."""
        return tuple(program_words(self.module, self.program))


def profile_program(
    options: ProfileOptions,
    window: StepWindow,
    condition: ProfileCondition | None,
    rank: int,
    ranks: int,
) -> BaseException | None:
    """Run the program in this process to its end, then report; returns the exception that it
    raised, or the one by which --fail-if fails."""
    from sonde.profile.report.files import make_directory, rank_directory

    directory = rank_directory(Path(options.directory), rank, ranks)
    make_directory(directory)
    recorders: list[ProfileRecorder] = []

    @contextmanager
    def attach() -> Iterator[None]:
        with recording(
            window,
            stops=options.stop,
            wants_memory=options.memory,
            say=say if rank == 0 else _ignore,
        ) as recorder:
            recorders.append(recorder)
            yield

    outcome = _run_program(options, attach)
    if not recorders:
        return outcome
    try:
        result = _report(options, recorders[0], directory, rank, ranks)
    except SondeError as error:
        if outcome is None:
            raise
        say_errors(str(error))
        return outcome
    return outcome or _judged(result, condition)


def _report(
    options: ProfileOptions, recorder: ProfileRecorder, directory: Path, rank: int, ranks: int
) -> Profile:
    from sonde.adapters.torch.eager.naming.source_lines import is_user_file
    from sonde.profile.analysis import Subject, analyse
    from sonde.profile.places import Places
    from sonde.profile.report.chrome import write_trace
    from sonde.profile.report.files import TRACE_NAME, write_profile
    from sonde.profile.report.terminal import show_profile

    subject = Subject(options.words, rank, ranks)
    profile, timings = analyse(recorder, subject, Places(is_user_file), say)
    write_trace(timings, rank, directory / TRACE_NAME)
    files = write_profile(profile, directory)
    if rank == 0 and options.as_json:
        print_document(msgspec.to_builtins(profile))
    elif rank == 0 and not options.quiet:
        show_profile(profile, files, sys.stdout)
    return profile


@contextmanager
def recording(
    window: StepWindow, *, stops: bool, wants_memory: bool, say: Callable[[str], None]
) -> Iterator[ProfileRecorder]:
    """Record the program that runs in this context; see `ProfileRecorder`."""
    from sonde.adapters.torch.adapter import TorchAdapter
    from sonde.adapters.torch.eager.naming.source_lines import is_user_file
    from sonde.adapters.torch.eager.step_end import StepHooks
    from sonde.capture.session import Session, Subscription
    from sonde.profile.places import Places
    from sonde.profile.record.recorder import ProfileRecorder

    recorder = ProfileRecorder(
        window, Places(is_user_file), stops=stops, wants_memory=wants_memory, say=say
    )
    keeper: Any = _GraphKeeper(recorder)
    session = Session([Subscription(keeper, keeper)])
    with ExitStack() as undo:
        undo.enter_context(recorder.tracker.attached())
        # The adapter is attached before our hooks are installed, so that its hooks run first.
        undo.enter_context(TorchAdapter(session, name="profile", starts_at_once=False).attach())
        StepHooks(
            recorder.optimizer_begins, recorder.optimizer_ended, recorder.step_ended, _ignore
        ).install(undo)
        recorder.start()
        try:
            yield recorder
        finally:
            recorder.close()


class _GraphKeeper(Sink):
    """A sink that takes no tensors, only the graph of the step that is run to learn names.

    It is also its own request: it wants no op, and one step.
    """

    def __init__(self, recorder: ProfileRecorder) -> None:
        self._recorder = recorder

    @property
    def steps(self) -> _GraphKeeper:
        return self

    def __contains__(self, step: int) -> bool:
        return self._recorder.names_step(step)

    def wants_op(self, node: OpNode) -> bool:
        return False

    def has(self, view: TensorView) -> bool:
        return True

    def end_step(self, end: StepEnd) -> None:
        if end.complete:
            self._recorder.learned(end.graph)


def run_trial(options: ProfileOptions, order: str) -> BaseException | None:
    """Run the program for a few steps with one change; its times are written to a file."""
    from sonde.adapters.torch.eager.naming.source_lines import is_user_file
    from sonde.adapters.torch.eager.step_end import StepHooks
    from sonde.profile.places import Places
    from sonde.profile.trial.clock import TrialClock, TrialOrder

    clock = TrialClock(msgspec.json.decode(order, type=TrialOrder), Places(is_user_file))

    @contextmanager
    def attach() -> Iterator[None]:
        with ExitStack() as undo:
            StepHooks(_ignore, _ignore, clock.step_ended, _ignore).install(undo)
            undo.enter_context(clock.running())
            yield

    return _run_program(options, attach)


def _run_program(
    options: ProfileOptions, attach: Callable[[], AbstractContextManager[object]]
) -> BaseException | None:
    from sonde.profile.record.recorder import WindowDone

    outcome = run_program(options.module, options.program, attach)
    return None if isinstance(outcome, WindowDone) else outcome


def try_variants(
    options: ProfileOptions,
    window: StepWindow,
    names: Sequence[str],
    condition: ProfileCondition | None,
) -> BaseException | None:
    """Profile once in separate processes, then run the variants, and report both."""
    from sonde.profile.document import load_profile
    from sonde.profile.report.files import rank_directory, write_profile
    from sonde.profile.report.terminal import show_profile
    from sonde.profile.trial.runs import TrialPlan, add_trials

    code = launched(options, ["--stop", "--quiet"])
    if code != 0:
        return SystemExit(code)
    directory = rank_directory(Path(options.directory), 0, options.ranks)
    plan = TrialPlan(
        program=options.words,
        warm_up=window.start,
        steps=window.stop - window.start,
        rounds=options.rounds,
        ranks=options.ranks,
        directory=Path(options.directory) / "trials",
    )
    result = add_trials(load_profile(directory), plan, names, say)
    files = write_profile(result, directory)
    if options.as_json:
        print_document(msgspec.to_builtins(result))
    else:
        show_profile(result, files, sys.stdout)
    return _judged(result, condition)


def profile_ranks(options: ProfileOptions, more: Sequence[str]) -> BaseException | None:
    """Profile the program in several ranks, which print the report; returns their exit code."""
    from sonde.profile.document import load_profile
    from sonde.profile.report.files import rank_directory

    code = launched(options, [*more, *(["--quiet"] if options.as_json else [])])
    if options.as_json and code in (0, FAILED_CONDITION):
        result = load_profile(rank_directory(Path(options.directory), 0, options.ranks))
        print_document(msgspec.to_builtins(result))
    return SystemExit(code)


def launched(options: ProfileOptions, more: Sequence[str]) -> int:
    """Profile the program in ``options.ranks`` new processes; returns the exit code."""
    from sonde.profile.record.launch import launch

    memory = ["--memory"] if options.memory else []
    given = ["--steps", options.steps, "--to", options.directory, *memory, *more]
    return launch([*given, *options.words], ranks=options.ranks)


def _judged(result: Profile, condition: ProfileCondition | None) -> BaseException | None:
    if condition is not None and result.rank == 0 and condition.holds(result):
        say_result(f"--fail-if holds: {condition.describe(result)}")
        return SystemExit(FAILED_CONDITION)
    return None


def _ignore(_: object) -> None:
    """Do nothing: another rank prints it, or the time within a step does not matter."""
