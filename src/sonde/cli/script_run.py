"""A program on PyTorch that ``sonde run`` runs, and what is captured of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from sonde.adapters.torch.determinism import Determinism
from sonde.capture.config import CaptureConfig
from sonde.capture.program_ranks import observed_ranks
from sonde.cli.diagnosed_program import DiagnosedProgram
from sonde.cli.guard_options import say_if_stopped, start_guard
from sonde.cli.mindspore_python import hint_at_python
from sonde.cli.rank_options import start_rank_checks
from sonde.cli.run_deterministic import without_randomness
from sonde.cli.script import needing_torch, run_program
from sonde.cli.script_command import net_name_of, own_command
from sonde.cli.tracker_options import start_tracker
from sonde.core.observation_variables import is_first_rank
from sonde.debugger import Terminated
from sonde.debugger.settings import DebuggerOptions
from sonde.logs import say
from sonde.monitor.options import GuardOptions
from sonde.ranks.options import RankOptions

StepBy = Literal["optimizer", "manual"]
Compiled = Literal["observe", "interpret", "eager"]
Observed = Literal["evaluation", "data"]

TERMINATED = 130
"""The exit code of a training that was ended from the debugger: that of Ctrl-C."""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A program to run and what to capture of it; ``note``, and a line about each variable that is
    ``unused``, are printed when it starts."""

    module: str | None
    program: tuple[str, ...]
    config: CaptureConfig | None
    step_by: StepBy
    observe: tuple[Observed, ...]
    note: str | None
    determinism: Determinism | None
    debugger: DebuggerOptions | None
    compiled: Compiled
    unused: Sequence[str] = ()
    guard: GuardOptions | None = None
    diagnosed: DiagnosedProgram | None = None
    ranks: RankOptions | None = None
    trackers: tuple[str, ...] = ()
    perturbs_weights: bool = False

    def execute(self) -> BaseException | None:
        """Run the program to its end; the exception that it raised, if any (see `cli.script`)."""
        start = self._attach if self.diagnosed is None else self.diagnosed.around(self._attach)
        start = without_randomness(self.determinism, start)
        with observed_ranks(own_command()):
            outcome = say_if_stopped(run_program(self.module, self.program, start))
        if self.diagnosed is not None:
            outcome = self.diagnosed.ended(outcome)
        if isinstance(outcome, Terminated):
            say("the training was ended from the debugger")
            return SystemExit(TERMINATED)
        if (hint := hint_at_python(outcome, self.module or self.program[0])) is not None:
            say(hint)
        return outcome

    def _attach(self) -> AbstractContextManager[object]:
        if is_first_rank(os.environ):  # one rank prints them
            for line in (*self.unused, *filter(None, (self.note,))):
                say(line)
        if self.ranks is None and not self.perturbs_weights and not self.trackers:
            return self._observed()
        return self._observed_and_more()

    @contextmanager
    def _observed_and_more(self) -> Iterator[None]:
        with ExitStack() as stack:
            # Trackers first: they are told what is found at the end of the rest.
            project = net_name_of(self.module or self.program[0], self.module is not None)
            for name in self.trackers:
                stack.enter_context(start_tracker(name, project))
            stack.enter_context(self._observed())
            if self.ranks is not None:
                # What executes a step again and a dump or debugger would observe each other.
                is_observed = self.config is not None or self.debugger is not None
                stack.enter_context(
                    start_rank_checks(self.ranks, self.debugger, is_observed=is_observed)
                )
            if self.perturbs_weights:
                with needing_torch("PyTorch is not installed, so there are no weights to change"):
                    from sonde.adapters.torch.determinism.perturbation import perturbed_weights
                stack.enter_context(perturbed_weights())
            yield

    def _observed(self) -> AbstractContextManager[object]:
        if self.guard is not None:
            return start_guard(self.guard)
        if self.config is None and self.debugger is None and find_spec("torch") is None:
            return nullcontext()
        with needing_torch("PyTorch is not installed, so there is nothing to dump"):
            from sonde.adapters.torch.step_dump.dumping import start_capture
        return start_capture(
            self.config,
            starts_at_once=False,
            step_by=self.step_by,
            debugger=self.debugger,
            compiled=self.compiled,
            observe=self.observe,
        )
