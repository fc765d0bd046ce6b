"""Runs a program under ``sonde profile``: in this process, in several, or in variants."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.cli.script import run_file, run_module
from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.sink import OpCall, StepEnd

if TYPE_CHECKING:
    from sonde.profile.condition import ProfileCondition
    from sonde.profile.document import Profile
    from sonde.profile.record.recorder import ProfileRecorder
    from sonde.profile.record.window import StepWindow
    from sonde.profile.trial.clock import TrialOrder

DEFAULT_DIRECTORY = "sonde_profile"
FAILED_CONDITION = 3


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The command line as parsed by click."""

    steps: str = "5:15"
    directory: str = DEFAULT_DIRECTORY
    stop: bool = False
    memory: bool = False
    variants: str | None = None
    rounds: int = 3
    ranks: int = 1
    fail_if: str | None = None
    as_trial: str | None = None
    quiet: bool = False
    module: str | None = None
    program: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the program at the end of a command line."""
        if self.module is not None:
            return ("-m", self.module, *self.program)
        return self.program


@dataclass(slots=True)
class ProfileRun:
    """The program in this process, under the recorder."""

    options: ProfileOptions
    window: StepWindow
    condition: ProfileCondition | None
    rank: int
    ranks: int
    recorder: ProfileRecorder | None = field(default=None, init=False)

    def execute(self) -> BaseException | None:
        """Run the program to its end, then report; returns the exception that it raised, or the
        one by which --fail-if fails."""
        from sonde.profile.record.recorder import WindowDone
        from sonde.profile.report.files import make_directory, rank_directory

        directory = rank_directory(Path(self.options.directory), self.rank, self.ranks)
        make_directory(directory)
        outcome = _run_program(self.options, self._attach)
        if isinstance(outcome, WindowDone):
            outcome = None
        if self.recorder is None:
            return outcome
        try:
            result = self._report(self.recorder, directory)
        except SondeError as error:
            if outcome is None:
                raise
            print(f"sonde: {error}", file=sys.stderr)
            return outcome
        return outcome or _judged(result, self.condition)

    @contextmanager
    def _attach(self) -> Iterator[None]:
        from sonde.profile.places import Places
        from sonde.profile.record.object_tracking import ObjectTracker
        from sonde.profile.record.recorder import ProfileRecorder
        from sonde.profile.record.sampler import Sampler

        places = Places(_user_files())
        tracker = ObjectTracker(places)
        self.recorder = ProfileRecorder(
            self.window,
            tracker=tracker,
            sampler=Sampler(places),
            stops=self.options.stop,
            wants_memory=self.options.memory,
            say=_say if self.rank == 0 else _keep_quiet,
        )
        with ExitStack() as undo:
            undo.enter_context(tracker.attached())
            undo.enter_context(naming(self.recorder))
            install_hooks(self.recorder, undo)
            self.recorder.start()
            try:
                yield
            finally:
                self.recorder.close()

    def _report(self, recorder: ProfileRecorder, directory: Path) -> Profile:
        from sonde.profile.analysis import Subject, analyse
        from sonde.profile.places import Places
        from sonde.profile.report.files import write_all
        from sonde.profile.report.terminal import show_profile

        subject = Subject(self.options.words, self.rank, self.ranks)
        analysis = analyse(recorder, subject, Places(_user_files()), _say)
        files = write_all(analysis.profile, analysis.timings, directory)
        if self.rank == 0 and not self.options.quiet:
            show_profile(analysis.profile, files, sys.stdout)
        return analysis.profile


@dataclass(frozen=True, slots=True)
class TrialRun:
    """A short run of the program with one change; its times are written to a file."""

    options: ProfileOptions
    order: TrialOrder

    def execute(self) -> BaseException | None:
        from sonde.profile.record.recorder import WindowDone

        outcome = _run_program(self.options, self._attach)
        return None if isinstance(outcome, WindowDone) else outcome

    @contextmanager
    def _attach(self) -> Iterator[None]:
        from sonde.adapters.torch.eager.step_end import StepHooks
        from sonde.profile.places import Places
        from sonde.profile.trial.clock import TrialClock

        clock = TrialClock(self.order, Places(_user_files()))
        with ExitStack() as undo:
            StepHooks(_ignore, _ignore, clock.step_ended, _keep_quiet).install(undo)
            undo.enter_context(clock.running())
            yield


class _GraphKeeper:
    """A sink that takes no tensors, only the graph of the step that is observed to learn names."""

    def __init__(self, recorder: ProfileRecorder) -> None:
        self._recorder = recorder

    @property
    def steps(self) -> _GraphKeeper:
        return self

    def __contains__(self, step: int) -> bool:
        return self._recorder.names_step(step)

    def wants_op(self, node: OpNode) -> bool:
        return False

    def begin_step(self, step: int) -> None: ...

    def write(self, call: OpCall) -> None: ...

    def end_step(self, end: StepEnd) -> None:
        if end.complete:
            self._recorder.learned(end.graph)

    def drop_step(self) -> None: ...

    def close(self) -> None: ...

    def fast_path(self) -> None: ...


def naming(recorder: ProfileRecorder) -> AbstractContextManager[object]:
    """Attach the torch adapter for the one step whose ops are learned.

    Attached before `install_hooks`.
    """
    from sonde.adapters.torch.adapter import TorchAdapter
    from sonde.capture.session import Session, Subscription

    keeper: Any = _GraphKeeper(recorder)
    session = Session([Subscription(keeper, keeper)])
    return TorchAdapter(session, name="profile", starts_at_once=False).attach()


def install_hooks(recorder: ProfileRecorder, undo: ExitStack) -> None:
    """Report the ends of steps to the recorder; installed after `naming`, whose hooks run first."""
    from sonde.adapters.torch.eager.step_end import StepHooks

    StepHooks(
        recorder.optimizer_begins, recorder.optimizer_left, recorder.step_ended, _keep_quiet
    ).install(undo)


def _user_files() -> Callable[[str], bool]:
    from sonde.adapters.torch.eager.source_lines import is_user_file

    return is_user_file


def _run_program(
    options: ProfileOptions, attach: Callable[[], AbstractContextManager[object]]
) -> BaseException | None:
    if options.module is not None:
        return run_module(options.module, options.program, attach)
    return run_file(options.program[0], options.program[1:], attach)


def try_variants(
    options: ProfileOptions,
    window: StepWindow,
    names: Sequence[str],
    condition: ProfileCondition | None,
) -> BaseException | None:
    """Profile once in separate processes, then run the variants, and report both."""
    import msgspec

    from sonde.profile.document import load_profile
    from sonde.profile.report.files import rank_directory, write_profile
    from sonde.profile.report.terminal import show_profile
    from sonde.profile.trial.runs import (
        TrialPlan,
        impossible,
        merged_findings,
        run_trials,
        with_values,
        without_tried,
    )

    code = launched(options, options.ranks, "--stop", "--quiet")
    if code != 0:
        return SystemExit(code)
    directory = rank_directory(Path(options.directory), 0, options.ranks)
    result = load_profile(directory)
    plan = TrialPlan(
        program=options.words,
        warm_up=window.start,
        steps=window.stop - window.start,
        rounds=options.rounds,
        ranks=options.ranks,
        directory=Path(options.directory) / "trials",
    )
    skipped = impossible(names, result)
    left = [name for name in names if name not in {item.name for item in skipped}]
    tried = [*run_trials(plan, with_values(left, result), _say), *skipped]
    result = msgspec.structs.replace(
        result,
        tried=tuple(tried),
        findings=merged_findings(result.findings, tried),
        worth_trying=without_tried(result.worth_trying, tried),
    )
    show_profile(result, write_profile(result, directory), sys.stdout)
    return _judged(result, condition)


def launched(options: ProfileOptions, ranks: int, *more: str) -> int:
    from sonde.profile.record.launch import launch

    stop = ["--stop"] if options.stop and "--stop" not in more else []
    memory = ["--memory"] if options.memory else []
    fail = ["--fail-if", options.fail_if] if options.fail_if and "--quiet" not in more else []
    given = ["--steps", options.steps, "--to", options.directory, *stop, *memory, *fail, *more]
    return launch([*given, *options.words], ranks=ranks)


def _judged(result: Profile, condition: ProfileCondition | None) -> BaseException | None:
    if condition is not None and result.rank == 0 and condition.holds(result):
        _say(f"sonde: --fail-if holds: {condition.describe(result)}")
        return SystemExit(FAILED_CONDITION)
    return None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _keep_quiet(text: str) -> None:
    """Print nothing: another rank prints it."""


def _ignore(_: object) -> None:
    """Do nothing: the profile does not depend on where in a step the optimizer is."""
