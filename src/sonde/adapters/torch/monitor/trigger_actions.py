"""What the guard does at a trigger: keep the step, say it, and then what the user chose."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from textwrap import shorten

import torch

from sonde.adapters.torch.debug_calls import stop_here
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.monitor.kept_text import kept_lines, shown_path
from sonde.adapters.torch.monitor.reporting import GuardReport
from sonde.adapters.torch.monitor.skipping import withhold_gradients
from sonde.adapters.torch.monitor.step_judging import StepJudging
from sonde.adapters.torch.monitor.step_keeping import StepKeeper
from sonde.adapters.torch.monitor.trigger_findings import trigger_finding
from sonde.core.running_training import step_text
from sonde.monitor import GuardStopped
from sonde.monitor.counting import TriggerCounts, summary_lines
from sonde.monitor.options import GuardOptions
from sonde.monitor.signals import Signals
from sonde.monitor.subscribers import tell_trigger
from sonde.monitor.triggers import Trigger, trigger_text


class TriggerActions:
    """Keeps triggered steps, as many as the user wants, and skips, stops or pauses."""

    def __init__(
        self, options: GuardOptions, keeper: StepKeeper, judging: StepJudging, report: GuardReport
    ) -> None:
        self._options = options
        self._keeper = keeper
        self._judging = judging
        self._report = report
        self._shield = FailureGuard(report.failed)
        self._restore_gradients: ExitStack | None = None
        self.counts = TriggerCounts(options.keep)

    def act(
        self, step: int, triggers: Sequence[Trigger], optimizer: torch.optim.Optimizer | None
    ) -> None:
        """Keep the step if it is to be kept, then do what the user chose. May raise GuardStopped,
        or what the debugger raises when the user ends the training."""
        signals = self._judging.signals
        with self._shield:
            if self.counts.wants(step, triggers) and signals is not None:
                self._keep(step, triggers, signals)
            elif not self.counts.is_repeated:
                tell_trigger(trigger_finding(triggers, _what(step, triggers), None), ())
        action = self._options.on_trigger
        if all(each.is_asked_for for each in triggers):
            return  # The user wants to have the step, not to change the training.
        if action == "stop":
            raise GuardStopped(_what(step, triggers))
        if action == "pause" and not self.counts.is_repeated:
            stop_here(trigger_text(triggers[0]), step=step)
        elif action == "skip" and optimizer is not None and signals is not None:
            with self._shield:
                signals.is_skipped = True
                self._restore_gradients = withhold_gradients(optimizer)

    def keep_exception(self, step: int, error: Exception) -> None:
        """Keep the step in which the program raised ``error``, up to the call that raised."""
        self._keeper.take(step, None)
        text = shorten(f"{type(error).__name__}: {error}", 200, placeholder=" ...")
        found = Trigger("exception", step, text=text)
        if self.counts.wants(step, [found]):
            signals = Signals(step, time=time.time(), has_loss=False)
            signals.triggers = 1
            self._judging.file.write(signals)
            self._keep(step, [found], signals)

    def known_too_late(self, step: int, triggers: Sequence[Trigger]) -> None:
        """Say what triggered where the weights are changed already."""
        # The weights that were judged are those after the update.
        late = [each for each in triggers if each.quantity != "weight"]
        if late and self.counts.wants(step, late):
            line = f"{_what(step, late)}; known after the update only, so the step is not kept"
            self._report.say(line)
            tell_trigger(trigger_finding(late, line, None), ())

    def optimizer_left(self) -> None:
        """Give back the gradients of a skipped step."""
        if self._restore_gradients is not None:
            self._restore_gradients.close()
            self._restore_gradients = None

    def summarise(self) -> None:
        """Say what was seen, at the end of the run."""
        directory = shown_path(self._options.directory, self._options.started_in)
        has_file = not self._judging.file.is_broken
        for line in summary_lines(self.counts, directory, has_file=has_file):
            self._report.say(line)

    def _keep(self, step: int, triggers: Sequence[Trigger], signals: Signals) -> None:
        """Execute the step again, write it, and say what was found."""
        directory, started_in = self._options.directory, self._options.started_in
        columns = self._judging.columns
        kept = self._keeper.keep(self._report.rank, triggers, signals, columns, directory)
        paths = [] if kept is None else kept.paths(triggers)
        if kept is not None:
            self.counts.kept += [shown_path(path, started_in) for path in paths]
            self.counts.kept_steps += kept.path is not None
        lines = kept_lines(_what(step, triggers), triggers, kept, started_in)
        for line in lines:
            self._report.say(line)
        tell_trigger(trigger_finding(triggers, lines[0], kept), paths)


def _what(step: int, triggers: Sequence[Trigger]) -> str:
    return f"{step_text(step)}: {trigger_text(triggers[0])}"
