"""Runs one trial: the training, its end, and the search for the cause if it diverged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.core.errors import SondeError
from sonde.tune.config.search_config import SearchTarget, TuneConfig
from sonde.tune.config.space import Value
from sonde.tune.script_side.current import ANSWERS_FILE, append_line, parameter_from_words
from sonde.tune.store.outcome import Ending
from sonde.tune.trials.command import CommandTemplate, value_text
from sonde.tune.trials.divergence import DUMP_DIRECTORY, Explanation, NonFiniteOrigin, find_origin
from sonde.tune.trials.overflow_command import watch
from sonde.tune.trials.trial_output import (
    Log,
    ReportedValue,
    Reports,
    ScalarReader,
    Series,
    Summaries,
)
from sonde.tune.trials.trial_process import TrialProcess

if TYPE_CHECKING:
    from optuna import Trial

WATCH_GRACE_SECONDS = 10.0
"""How long a watched trial continues after its loss became NaN or infinite.

The overflow dump of that step, which names the op, is written at the end of the step.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """How a trial ended. ``value`` is finite; only finished trials have one."""

    ending: Ending
    value: float | None
    reason: str
    origin: NonFiniteOrigin | None = None


class RunningTrial:
    """A running trial; call `poll` until it returns the result."""

    def __init__(
        self,
        trial: Trial,
        values: Mapping[str, Value],
        template: CommandTemplate,
        config: TuneConfig,
        directory: Path,
        *,
        read_scalars: ScalarReader | None,
        is_watched: bool,
    ) -> None:
        self.trial = trial
        self.values = dict(values)
        self.directory = directory
        self._template = template
        self._config = config
        self._is_watched = is_watched
        self.series = Series(config.target)
        self._reports = Reports(directory, config.target)
        self._log = Log(directory, config.target)
        self._summaries = Summaries(directory, config.target, read_scalars)
        self._ending: Ending | None = None
        self._reason = ""
        self._diverged_at: float | None = None
        self._explanation: Explanation | None = None
        launch = template.render(values, directory)
        if is_watched:
            launch = watch(launch, directory / DUMP_DIRECTORY, directory / "bin")
        self._process = TrialProcess(launch, directory)

    @property
    def number(self) -> int:
        return self.trial.number

    @property
    def seconds(self) -> float:
        return self._process.seconds

    @property
    def doing(self) -> str:
        """What the trial is doing, as shown to users."""
        if self._explanation is not None:
            return "finding out why"
        return "training" if self._ending is None else "stopping"

    def poll(self) -> Result | None:
        """The result, or None while the trial runs."""
        if self._explanation is not None:
            return self._explained(self._explanation)
        code = self._process.poll()
        self._observe(to_end=code is not None)
        if code is None:
            self._end_if_due()
            return None
        return self._finished(code)

    def stop(self) -> None:
        """Send SIGTERM; `interrupt` waits for the end."""
        self._process.stop()

    def interrupt(self) -> None:
        """End all its processes and wait for them."""
        self._process.end()
        if self._explanation is not None:
            self._explanation.close()

    def _observe(self, *, to_end: bool) -> None:
        found = self._reports.look(to_end=to_end)
        found += self._summaries.look(to_end=to_end)
        found += self._log.look(to_end=to_end)
        for step, value in self.series.note(found):
            self.trial.report(value, step)
            if not to_end and self._ending is None and self.trial.should_prune():
                self._end("pruned", f"not promising at step {step} ({value:.6g})")
        questions, self._reports.questions = self._reports.questions, []
        for question in questions:
            self._answer(question)

    def _answer(self, question: Mapping[str, Any]) -> None:
        """Answer a script's request for a parameter that the configuration lacks."""
        name = str(question.get("name"))
        answer: dict[str, Any] = {"name": name}
        try:
            parameter = parameter_from_words(name, question.get("space", {}))
            self.values[name] = answer["value"] = parameter.suggest(self.trial)
        except SondeError as error:
            answer["problem"] = error.message
        except ValueError as error:  # the study has another space under this name
            answer["problem"] = f"suggest({name!r}): {error}"
        append_line(self.directory / ANSWERS_FILE, answer)

    def _end_if_due(self) -> None:
        """End the trial if it diverged or takes too long."""
        if self._ending is not None:
            return
        bad, limit = self.series.non_finite, self._config.limits.trial_time
        if bad is not None and self._config.divergence.stop:
            if self._is_watched and self._may_still_name_the_op():
                return
            self._end("diverged", _why_diverged(bad))
        elif limit is not None and self.seconds > limit:
            self._end("timeout", f"not done after {limit:g} s")

    def _may_still_name_the_op(self) -> bool:
        if self._diverged_at is None:
            self._diverged_at = self.seconds
        is_known = find_origin(self.directory / DUMP_DIRECTORY) is not None
        return not is_known and self.seconds - self._diverged_at < WATCH_GRACE_SECONDS

    def _end(self, ending: Ending, reason: str) -> None:
        self._ending, self._reason = ending, reason
        self._process.stop()

    def _finished(self, code: int) -> Result | None:
        """The result of an ended process; None if it is run again to find the cause."""
        value, bad = self.series.result(), self.series.non_finite
        is_finite = value is not None and math.isfinite(value)
        if self._ending is None and bad is not None and (code or not is_finite):
            self._ending, self._reason = "diverged", _why_diverged(bad)
        if self._ending == "diverged":
            return self._diverged()
        if self._ending is not None:
            return Result(self._ending, None, self._reason)
        if code:
            return Result("failed", None, _why_failed(code, self._log.last_lines))
        if value is None:
            return Result("failed", None, _why_no_value(self._config.target))
        return Result("finished", value, "")

    def _diverged(self) -> Result | None:
        """The result of a diverged trial; None if a second run was started to find the cause."""
        origin = find_origin(self.directory / DUMP_DIRECTORY) if self._is_watched else None
        if origin is not None:
            return Result("diverged", None, f"{self._reason}; {origin}", origin)
        if not self._config.divergence.explain:
            return Result("diverged", None, self._reason)
        launch = self._template.render(self.values, self.directory)
        self._explanation = Explanation(launch, self.directory, self._config.divergence.seconds)
        return None

    def _explained(self, explanation: Explanation) -> Result | None:
        found = explanation.poll()
        if found is None:
            return None
        origin, why_not = found
        cause = f"the origin is not known: {why_not}" if origin is None else str(origin)
        return Result("diverged", None, f"{self._reason}; {cause}", origin)


def _why_failed(code: int, output: list[str]) -> str:
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    last = next((line.strip() for line in reversed(output) if line.strip()), "")
    return f"{ended}: {last}" if last else f"{ended}, without output"


def _why_no_value(target: SearchTarget) -> str:
    if target.pattern is not None:
        return f"nothing in its output matches {target.pattern.pattern!r}"
    places = {
        "report": f"report({target.name}=...) was not called",
        "summary": f"its summary has no {target.name!r}",
        "log": f"its output has no line such as '{target.name}: 0.1'",
    }
    wanted = places if target.origin == "auto" else {target.origin: places[target.origin]}
    return "no value of the target: " + ", ".join(wanted.values())


def _why_diverged(bad: ReportedValue) -> str:
    step = "" if bad.step is None else f" at step {bad.step}"
    return f"{bad.name} is {value_text(bad.value)}{step}"
