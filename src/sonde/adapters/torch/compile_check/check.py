"""``sonde compile-check``: one step of a program, eager, interpreted, compiled and in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import hypot
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.distances import compared, size
from sonde.adapters.torch.compile_check.fused import wrong_across, wrong_together
from sonde.adapters.torch.compile_check.ops import OpsJudged, coarsest_epsilon, judge_ops
from sonde.adapters.torch.compile_check.records import GraphCall
from sonde.adapters.torch.compile_check.tape import Tape
from sonde.adapters.torch.compile_check.updates import updated
from sonde.adapters.torch.compile_check.watch import CompileWatch
from sonde.adapters.torch.compile_check.ways import (
    Results,
    TracedAotGraph,
    WayFailedError,
    Ways,
    aot_graphs,
    compiled,
    first_line,
    run,
    run_ways,
)
from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.core.agreement import CompileVerdict, GraphVerdict, Kind, ResultComparison, WrongGroup

DEFAULT_BUDGET = 2 << 30

Say = Callable[[str], None]


class CheckDoneError(BaseException):
    """Raised in the program to end it when its step has been checked."""


class CompileCheck:
    """Watches a program until its step ``step`` is about to update the weights, and checks it.

    ``verdict`` is None until then. With ``continues`` the program goes on, otherwise it is ended by
    CheckDoneError. ``budget`` is how many bytes of values of ops are held at a time.
    """

    def __init__(
        self, step: int, *, continues: bool, say: Say, budget: int = DEFAULT_BUDGET
    ) -> None:
        private.require()
        self.verdict: CompileVerdict | None = None
        self.steps_seen = 0
        self._step = step
        self._continues = continues
        self._say = say
        self._budget = budget
        self._watch = CompileWatch(runs_compiled=continues)
        self._is_checking = False

    @contextmanager
    def attached(self) -> Iterator[None]:
        self._watch.is_recording = self._step == 0
        with ExitStack() as undo:
            undo.enter_context(self._watch.attached())
            StepHooks(self._began, _ignore, self._ended, _ignore).install(undo)
            yield

    def _began(self, optimizer: torch.optim.Optimizer) -> None:
        records = [each for each in self._watch.records if each.tangents]
        if self._is_checking or self.verdict is not None or not records:
            return
        self._is_checking = True
        self._watch.is_recording = False
        state = torch.get_rng_state()
        try:
            self.verdict = _check(records, optimizer, self._step, self._budget, self._say)
        finally:
            self._is_checking = False
            self._watch.forget()
            torch.set_rng_state(state)
        if not self._continues:
            # Raising is the only way to end the program before it updates its weights.
            raise CheckDoneError

    def _ended(self) -> None:
        if self._is_checking:
            return
        self.steps_seen += 1
        self._watch.is_recording = self.verdict is None and self.steps_seen >= self._step


def _ignore(_: Any) -> None: ...


def _check(
    records: Sequence[GraphCall],
    optimizer: torch.optim.Optimizer,
    step: int,
    budget: int,
    say: Say,
) -> CompileVerdict:
    verdicts: list[GraphVerdict] = []
    gradients: dict[str, dict[torch.Tensor, torch.Tensor]] = {}
    problems: list[str] = []
    for number, record in enumerate(records):
        name = record.name if len(records) == 1 else f"{record.name}, graph {number}"
        say(f"checking {name}: {len(record.graph.graph.nodes)} nodes, {record.backend}")
        verdict, ways = _check_graph(record, name, budget, say)
        verdicts.append(verdict)
        if ways is not None:
            _add_gradients(gradients, record, ways)
    names = _parameter_names(records)
    epsilon = max((each.epsilon for one in verdicts for each in one.comparisons), default=0.0)
    weights = _weights(optimizer, gradients, names, epsilon, problems)
    return CompileVerdict(step, tuple(verdicts), weights, tuple(problems))


def _check_graph(
    record: GraphCall, name: str, budget: int, say: Say
) -> tuple[GraphVerdict, Ways | None]:
    tape = Tape()
    try:
        ways = run_ways(record, tape)
    except WayFailedError as failed:
        nothing = GraphVerdict(name, record.backend, 0, 0, (), None, problems=(str(failed),))
        return nothing, None
    problems = list(ways.problems)
    graphs: list[TracedAotGraph] = []
    judged = OpsJudged()
    is_matched = tape.is_matched
    try:
        graphs = aot_graphs(record, tape)
        judged = judge_ops(graphs, record.compile, budget)
    except Exception as failed:  # Any backend compiles here; the report has it.
        problems.append(f"its ops could not be judged: {first_line(failed)}")
    comparisons = _comparisons(record, ways, coarsest_epsilon(graphs))
    problems += _not_finite(ways)
    together = None
    if judged.wrong is None and is_matched and not all(each.agrees for each in comparisons):
        say(f"looking in {name} for ops that are wrong together, which takes several compilations")
        try:
            together = wrong_together(graphs, record.compile, budget)
            together = together or _wrong_across(record, ways, tape, coarsest_epsilon(graphs))
        except Exception as failed:  # As above: the deviation is valid without it.
            problems.append(f"ops that are wrong together were not found: {first_line(failed)}")
    verdict = GraphVerdict(
        name=name,
        backend=record.backend,
        op_count=judged.op_count,
        judged_ops=judged.judged,
        comparisons=tuple(comparisons),
        wrong=judged.wrong,
        random_ops=len(tape.drawn),
        is_random_matched=is_matched,
        problems=(*problems, *judged.problems),
        together=together,
    )
    return verdict, ways


def _wrong_across(record: GraphCall, ways: Ways, tape: Tape, epsilon: float) -> WrongGroup | None:
    def is_wrong(graph: fx.GraphModule) -> bool:
        results = run(record, compiled(record, graph), tape)
        found = _comparisons(record, replace(ways, compiled=results), epsilon)
        return not all(each.agrees for each in found)

    return wrong_across(record.graph, is_wrong)


def _comparisons(record: GraphCall, ways: Ways, epsilon: float) -> list[ResultComparison]:
    names = record.input_names
    outputs = {number: f"output {number}" for number in ways.reference.outputs}
    inputs = {number: names[number] for number in ways.reference.gradients}
    written = {
        number: names[number]
        for number, value in ways.eager.inputs.items()
        if number not in ways.eager.gradients
        and not torch.equal(value, record.inputs[number].detach())
    }
    return [
        *_of_kind("output", outputs, ways, lambda results: results.outputs, epsilon),
        *_of_kind("buffer", written, ways, lambda results: results.inputs, epsilon),
        *_of_kind("gradient", inputs, ways, lambda results: results.gradients, epsilon),
    ]


def _not_finite(ways: Ways) -> list[str]:
    """A sentence about results that hold NaN or infinities in float64 too."""
    results = [*ways.reference.outputs.values(), *ways.reference.gradients.values()]
    count = sum(not bool(torch.isfinite(each).all()) for each in results)
    if not count:
        return []
    return [
        f"{count} of {len(results)} outputs and gradients hold NaN or infinities in float64 too; "
        "only finite elements are compared, and sonde run --overflow finds where they begin"
    ]


def _of_kind(
    kind: Kind,
    names: Mapping[int, str],
    ways: Ways,
    part: Callable[[Results], dict[int, torch.Tensor]],
    epsilon: float,
) -> list[ResultComparison]:
    references = {number: part(ways.reference)[number] for number in names}
    group = hypot(*(size(value) for value in references.values()))
    return [
        compared(
            kind,
            name,
            references[number],
            part(ways.eager)[number],
            part(ways.compiled).get(number),
            None if ways.interpreted is None else part(ways.interpreted).get(number),
            None if ways.jittered is None else part(ways.jittered).get(number),
            epsilon,
            group,
        )
        for number, name in names.items()
        if number in part(ways.eager)
    ]


# ---------------------------------------------------------------- updated weights


def _parameter_names(records: Sequence[GraphCall]) -> dict[torch.Tensor, str]:
    return {
        value: name
        for record in records
        for value, name in zip(record.inputs, record.input_names, strict=False)
        if isinstance(value, torch.nn.Parameter)
    }


def _add_gradients(
    sums: dict[str, dict[torch.Tensor, torch.Tensor]], record: GraphCall, ways: Ways
) -> None:
    """Add the gradients of this graph's parameters, way by way."""
    for way, results in (
        ("eager", ways.eager),
        ("reference", ways.reference),
        ("compiled", ways.compiled),
        ("interpreted", ways.interpreted),
        ("jittered", ways.jittered),
    ):
        if results is None:
            continue
        mine = sums.setdefault(way, {})
        for number, gradient in results.gradients.items():
            parameter = record.inputs[number]
            if isinstance(parameter, torch.nn.Parameter):
                known = mine.get(parameter)
                mine[parameter] = gradient if known is None else known + gradient


def _weights(
    optimizer: torch.optim.Optimizer,
    gradients: Mapping[str, Mapping[torch.Tensor, torch.Tensor]],
    names: Mapping[torch.Tensor, str],
    epsilon: float,
    problems: list[str],
) -> tuple[ResultComparison, ...]:
    """The weights after the optimizer's step with the gradients of each way."""
    if "eager" not in gradients:
        return ()
    after = {}
    try:
        for way, found in gradients.items():
            after[way] = updated(optimizer, gradients["eager"], found, wide=way == "reference")
    except Exception as failed:  # An optimizer may be any code; the report has the error.
        problems.append(
            f"updated weights were not compared: {type(optimizer).__name__}.step() on a copy "
            f"failed: {first_line(failed)}"
        )
        return ()
    group = hypot(*(size(value) for value in after["reference"].values()))
    return tuple(
        compared(
            "weight",
            names.get(parameter, "weight"),
            reference,
            after["eager"][parameter],
            after["compiled"].get(parameter),
            after.get("interpreted", {}).get(parameter),
            after.get("jittered", {}).get(parameter),
            epsilon,
            group,
        )
        for parameter, reference in after["reference"].items()
        if parameter in after["eager"]
    )
