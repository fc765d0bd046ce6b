"""Calls a function and dumps every tensor that it computes, for the assertions of a test."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sonde
from sonde.capture.options import config_from_options
from sonde.capture.requests import SelectionRequest
from sonde.capture.session import Subscription
from sonde.core.errors import UsageError
from sonde.core.sink import NON_FINITE, OpCall, ScreenPath, Sink, StepEnd, TensorView
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.reader import Dump
from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.pytest.golden import DEFAULT_ATOL, GoldenFiles
from sonde.logs import say
from sonde.logs.lines import collected_lines
from sonde.watch.explanations import facts_of_call
from sonde.watch.headline import origin_headline
from sonde.watch.origins import Origin, OriginTracker

try:
    from sonde.adapters.torch.attach import attach
    from sonde.adapters.torch.replay.random_states import kept_random
except ImportError as _error:
    raise MissingLibraryError("torch", "torch", _error) from None


@dataclass(frozen=True, slots=True)
class TestedFunction:
    """What a function computed: its ``result``, and the ``dump`` of all its tensors."""

    result: Any
    dump: Dump
    fault: Origin | None
    _golden: GoldenFiles

    def assert_finite(self) -> None:
        """Fail, and name the op, if NaN or Inf arose and are a fault: those that reach a loss, an
        update or the result, but not a mask of ``-inf`` whose softmax is finite."""
        __tracebackhide__ = True
        if self.fault is not None:
            raise AssertionError(origin_headline(self.fault).text)

    def assert_golden(
        self, name: str = "", *, rtol: float | None = None, atol: float = DEFAULT_ATOL
    ) -> None:
        """Fail, and name the first op, if its statistics are not those of the golden file, which
        ``pytest --sonde-update`` writes.

        ``name`` tells several files of one test apart. ``rtol`` is relative to the largest
        magnitude of a tensor; without it, it is 1e-4, and 2e-2 for 16-bit and smaller numbers.
        """
        __tracebackhide__ = True
        found = self._golden.difference(self.dump, name, rtol=rtol, atol=atol)
        if found:
            raise AssertionError(found)


@dataclass(slots=True, eq=False)
class _FaultSearch(Sink):
    """Finds the first NaN or Inf of the run that are a fault, as ``--overflow`` does."""

    found: Origin | None = None
    _tracker: OriginTracker = field(default_factory=lambda: OriginTracker(facts=facts_of_call))
    _origins: list[Origin] = field(default_factory=list)

    def begin_step(self, step: int) -> None:
        self._tracker.begin_step()
        self._origins.clear()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        traced = self._tracker.look(call)
        if traced is not None and traced.origin not in self._origins:
            self._origins.append(traced.origin)

    def end_step(self, end: StepEnd) -> None:
        self._tracker.end_step(end.graph.nodes)
        faults = [each for each in self._origins if each.is_fault]
        if self.found is None:
            self.found = min(faults, key=lambda each: each.number, default=None)

    def fast_path(self) -> ScreenPath:
        return ScreenPath(lambda node, leaves: NON_FINITE, every_op=NON_FINITE)


def observe(
    call: Callable[[], Any], directory: Path, golden: GoldenFiles, *, seed: int
) -> TestedFunction:
    """Call ``call`` with seeded generators, and dump what it computes to ``directory``.

    What it raises is raised. UsageError if it ran no op of torch.
    """
    __tracebackhide__ = True
    config = config_from_options(directory, os.environ)
    search = _FaultSearch()
    subscription = Subscription(search, SelectionRequest(config.selection))
    with (
        kept_random(),
        collected_lines() as lines,
        attach(config, starts_at_once=True, subscriptions=[subscription]),
    ):
        sonde.set_seed(seed)
        result = call()
    problems = [each for each in lines if isinstance(each, ProblemLine)]
    dump = Dump(directory)
    if not dump.steps():
        raise UsageError("no op of torch ran in the observed function", slug="pytest-nothing-ran")
    for line in problems:
        say(line)
    return TestedFunction(result, dump, search.found, golden)
