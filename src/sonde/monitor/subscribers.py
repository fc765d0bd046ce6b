"""Tells others what is measured and found while a training runs: trackers, loggers of frameworks.

A subscriber is told in the thread that trains. One that raises is removed, and reported once: the
training goes on. In a forked child there are none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from sonde.core.finding import Finding
from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine
from sonde.logs import say
from sonde.monitor.signals import Signals


class Subscriber(Protocol):
    """Is told what happens in a training; none of its methods may change a tensor."""

    name: str
    """What a message about its failure calls it."""

    def measured(self, signals: Signals) -> None:
        """A step of a guarded training has ended."""

    def triggered(self, finding: Finding, kept: Sequence[Path]) -> None:
        """A step triggered the guard, before its update; its captured steps are in ``kept``. A step
        whose trigger is that of the step before is not told again."""

    def diagnosed(self, finding: Finding) -> None:
        """A diagnosis is sure of a finding, or has it at the end."""


_subscribers: list[Subscriber] = []
os.register_at_fork(after_in_child=_subscribers.clear)


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Add ``subscriber``; the returned function removes it, and may be called twice."""
    _subscribers.append(subscriber)

    def unsubscribe() -> None:
        if subscriber in _subscribers:
            _subscribers.remove(subscriber)

    return unsubscribe


def tell_signals(signals: Signals) -> None:
    """Tell the subscribers the signals of a step that has ended."""
    _tell(lambda each: each.measured(signals))


def tell_trigger(finding: Finding, kept: Sequence[Path]) -> None:
    """Tell the subscribers what triggered the guard."""
    _tell(lambda each: each.triggered(finding, kept))


def tell_diagnosis(finding: Finding) -> None:
    """Tell the subscribers a finding of a diagnosis."""
    _tell(lambda each: each.diagnosed(finding))


def _tell(call: Callable[[Subscriber], None]) -> None:
    for each in list(_subscribers):
        try:
            call(each)
        except Exception as error:
            pass_on(error)
            if each in _subscribers:
                _subscribers.remove(each)
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            say(
                ProblemLine(
                    f"{each.name} failed and has ended, training goes on: {what}",
                    slug="subscriber-failed",
                )
            )
