"""Shows the progress of ``sonde tune``: a live table in a terminal, else one line per trial."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sonde.cli.terminal import Terminal
from sonde.core.text.number_text import long_duration, number_text
from sonde.core.text.problem_line import ProblemLine
from sonde.logs import say

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from sonde.tune.config.search_config import TuneConfig
    from sonde.tune.store.listing import StudyListing
    from sonde.tune.trials.command import CommandTemplate
    from sonde.tune.trials.search import SearchSession
    from sonde.tune.trials.trial import Result, RunningTrial

MOST_ROWS = 12
_LEAST_NAME = 6
_MOST_VALUE = 24
_USUAL_VALUE = 10
REFRESHES_PER_SECOND = 4
STYLES = {
    "finished": "green",
    "pruned": "yellow",
    "diverged": "bold red",
    "failed": "red",
    "timeout": "red",
}


class SearchProgress:
    """Shows a search on stdout; a `sonde.tune.trials.runner.Listener`."""

    def __init__(self, config: TuneConfig, session: SearchSession) -> None:
        self._config = config
        self._session = session
        self._console = Terminal(highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._began = time.monotonic()
        self._rows: list[tuple[RunningTrial, Result]] = []
        self._refreshed = 0.0
        listing = session.listing()
        self._done = sum(1 for one in listing.trials if one.state not in ("running", "interrupted"))
        best = listing.best_trial
        self._best = None if best is None else (best.number, best.value)

    def __enter__(self) -> SearchProgress:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.update(self._picture([]), refresh=True)
            self._live.__exit__(*error)

    def requeued(self, trials: list[FrozenTrial]) -> None:
        if self._done or trials:
            say(f"continuing a search with {self._done} trials done")
        if trials:
            numbers = ", ".join(str(one.number) for one in trials)
            say(f"queued again after their search was killed: {numbers}")

    def polled(self, running: list[RunningTrial]) -> None:
        now = time.monotonic()
        if self._live is not None and now - self._refreshed > 1 / REFRESHES_PER_SECOND:
            self._refreshed = now
            self._live.update(self._picture(running), refresh=True)
        self._session.write_if_due()

    def ended(self, running: RunningTrial, result: Result) -> None:
        self._done += 1
        if result.value is not None and self._is_better(result.value):
            self._best = (running.number, result.value)
        self._rows = [*self._rows[-MOST_ROWS + 1 :], (running, result)]
        if self._live is None:
            self._console.print(self._line(running, result))

    def _is_better(self, value: float) -> bool:
        if self._best is None or self._best[1] is None:
            return True
        sign = 1 if self._config.target.goal == "minimize" else -1
        return sign * value < sign * self._best[1]

    def _picture(self, running: list[RunningTrial]) -> Group:
        names = self._config.space.names
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        trials = [one for one, _ in self._rows] + running
        rows = {name: [cell_text(one.values, name) for one in trials] for name in names}
        width = self._console.width
        room = width - add_trial_columns(table, "", self._config.target.name, rows, width)
        table.add_column("", overflow="ellipsis", no_wrap=True, max_width=max(1, room))

        def add(trial: RunningTrial, state: Text, value: Text, note: str) -> None:
            table.add_row(
                str(trial.number),
                state,
                value,
                *(cell_text(trial.values, name) for name in names),
                long_duration(trial.seconds),
                Text(note if room > _LEAST_NAME else "", "dim"),
            )

        for one, result in self._rows:
            mark, style = (" *", "bold") if self._is_best(one) else ("  ", "")
            value = Text(number_text(result.value, 6) + mark, style)
            add(one, Text(result.ending, STYLES.get(result.ending, "")), value, result.reason)
        for one in running:
            latest = one.series.latest
            now = "" if latest is None else f"{number_text(latest[1], 6)}  "
            note = "" if latest is None else f"step {latest[0]}"
            add(one, Text(one.doing, "cyan"), Text(now, "cyan"), note)
        return Group(self._headline(), table)

    def _is_best(self, trial: RunningTrial) -> bool:
        return self._best is not None and self._best[0] == trial.number

    def _line(self, trial: RunningTrial, result: Result) -> Text:
        """An ended trial as one line."""
        mark = " *" if self._is_best(trial) else ""
        value = f"  {self._config.target.name} {number_text(result.value, 6)}{mark}"
        settings = " ".join(f"{name}={cell_text(trial.values, name)}" for name in trial.values)
        text = Text(f"trial {trial.number}  ")
        text.append(result.ending, STYLES.get(result.ending, ""))
        text.append(value if result.value is not None else "")
        text.append(f"  {settings}  {long_duration(trial.seconds)}")
        return text.append(f"  {result.reason}", "dim") if result.reason else text

    def _headline(self) -> Text:
        limit = self._config.limits.trials
        done = f"{self._done} of {limit}" if limit is not None else str(self._done)
        best = ""
        if self._best is not None:
            number, value = self._best
            best = f", best {self._config.target.name} {number_text(value, 6)} (trial {number})"
        return Text(
            f"{done} trials done{best}, {long_duration(time.monotonic() - self._began)}",
            "bold",
        )

    def results(self, listing: StudyListing, reason: str) -> None:
        """Print the end of a search: the reason, the best trial, importances, files."""
        self._console.print()
        if reason:
            self._console.print(Text(f"{reason}: {counts_text(listing)}"))
        print_origins(listing, self._console)
        print_best(listing, self._console)
        page = self._config.directory / "report.html"
        self._console.print(Text(f"page {page}", "dim"))


def add_trial_columns(
    table: Table,
    state: str,
    target: str,
    rows: Mapping[str, Sequence[str]],
    width: int,
) -> int:
    """Add columns for number, state, value, parameters and time; returns their total width.

    ``rows`` has the cells of each parameter. Where there is not enough ``width`` for all, the names
    of parameters fold, not their values.
    """
    values = {name: max(map(len, cells), default=0) for name, cells in rows.items()}
    columns = {name: max(len(name), widest) for name, widest in values.items()}
    value = max(len(target), _USUAL_VALUE)
    fixed = sum(map(len, ("trial", "finished", "00h00m"))) + value + 2 * (4 + len(columns))
    if fixed + sum(columns.values()) > width:
        columns = {name: max(_LEAST_NAME, widest) for name, widest in values.items()}
    table.add_column("trial", justify="right", no_wrap=True)
    table.add_column(state, no_wrap=True)
    table.add_column(target, justify="right", no_wrap=True)
    for name, wanted in columns.items():
        table.add_column(name, justify="right", overflow="fold", width=min(wanted, _MOST_VALUE))
    table.add_column("time", justify="right", no_wrap=True)
    return fixed + sum(columns.values())


def print_best(listing: StudyListing, console: Console) -> None:
    """Print the best trial: its values, their importance, and the command that repeats it."""
    best = listing.best_trial
    if best is None:
        return
    lines = [Text(f"best {listing.target} {best.value!r}, trial {best.number}", "bold")]
    for name, value in best.parameters.items():
        share = dict(listing.importance).get(name)
        importance = "" if share is None else f"   importance {share:.0%}"
        lines.append(Text(f"  {name} {value}{importance}"))
    if best.command:
        lines += [Text("run it again:", "dim"), Text(f"  {best.command}")]
    for line in lines:
        console.print(line, soft_wrap=True)


def counts_text(listing: StudyListing) -> str:
    """How many trials are in each state."""
    return ", ".join(f"{count} {state}" for state, count in listing.counts().items())


def print_origins(listing: StudyListing, console: Console) -> None:
    """Print the ops that made trials diverge, each once."""
    found: dict[str, list[int]] = {}
    for one in listing.trials:
        if one.origin is not None:
            place = f"{one.origin['op']} at {one.origin['file']}:{one.origin['line']}"
            found.setdefault(place, []).append(one.number)
    for place, numbers in found.items():
        which = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        console.print(Text(f"diverged in {place}: trials {which}", "red"), soft_wrap=True)


def show_check(config: TuneConfig, template: CommandTemplate) -> None:
    """Print how each parameter is passed to the command, and the command of an example trial."""
    console = Terminal(highlight=False, soft_wrap=True)
    found = check_json(config, template)
    for each in found["parameters"]:
        console.print(Text(f"{each['name']}: {each['passed']}"))
    console.print(Text(f"such as: {found['example']}"))
    warn_unused(template)


def check_json(config: TuneConfig, template: CommandTemplate) -> dict[str, Any]:
    """The parameters and the command of an example trial."""
    example: dict[str, Any] = {}
    for one in config.space.parameters:
        if one.is_active(example):
            example[one.name] = one.choices[0] if one.kind == "choice" else one.low
    parameters = [
        {"name": each.parameter.name, "passed": each.described()} for each in template.deliveries
    ]
    return {"parameters": parameters, "example": template.render(example, None).text()}


def warn_unused(template: CommandTemplate) -> None:
    for name in template.unused:
        text = (
            f"neither the command nor its script uses {name}; write {{{name}}} in the command, or "
            f"call sonde.tune.suggest({name!r}, default) in the script"
        )
        say(ProblemLine(text, slug="tune-unused"))


def cell_text(values: Mapping[str, Any], name: str) -> str:
    return number_text(values[name], missing="None") if name in values else ""
