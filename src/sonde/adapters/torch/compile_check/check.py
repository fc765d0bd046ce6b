"""``sonde compile-check``: one step of a program, eager, interpreted, compiled and in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.agreement import (
    CompileVerdict,
    GraphVerdict,
    ResultComparison,
    WrongGroup,
)
from sonde.adapters.torch.compile_check.distances import comparisons
from sonde.adapters.torch.compile_check.fused import wrong_across, wrong_together
from sonde.adapters.torch.compile_check.ops import OpsJudged, coarsest_epsilon, judge_ops
from sonde.adapters.torch.compile_check.records import GraphCall
from sonde.adapters.torch.compile_check.tape import Tape
from sonde.adapters.torch.compile_check.updates import updated_weights
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
    calls: list[tuple[GraphCall, Ways]] = []
    for number, record in enumerate(records):
        name = record.name if len(records) == 1 else f"{record.name}, graph {number}"
        say(f"checking {name}: {len(record.graph.graph.nodes)} nodes, {record.backend}")
        tape = Tape()
        try:
            ways = run_ways(record, tape)
        except WayFailedError as failed:
            problems = (str(failed),)
            verdicts.append(GraphVerdict(name, record.backend, 0, 0, (), None, problems=problems))
        else:
            calls.append((record, ways))
            verdicts.append(_check_graph(record, name, ways, tape, budget, say))
    epsilon = max((each.epsilon for one in verdicts for each in one.comparisons), default=0.0)
    try:
        weights = updated_weights(optimizer, calls, epsilon)
    except Exception as failed:  # An optimizer may be any code; the report has the error.
        problem = (
            f"updated weights were not compared: {type(optimizer).__name__}.step() on a copy "
            f"failed: {first_line(failed)}"
        )
        return CompileVerdict(step, tuple(verdicts), (), (problem,))
    return CompileVerdict(step, tuple(verdicts), tuple(weights), ())


def _check_graph(
    record: GraphCall, name: str, ways: Ways, tape: Tape, budget: int, say: Say
) -> GraphVerdict:
    problems = list(ways.problems)
    graphs: list[TracedAotGraph] = []
    judged = OpsJudged()
    is_matched = tape.is_matched
    try:
        graphs = aot_graphs(record, tape)
        judged = judge_ops(graphs, record.compile, budget)
    except Exception as failed:  # Any backend compiles here; the report has the error.
        problems.append(f"its ops could not be judged: {first_line(failed)}")
    epsilon = coarsest_epsilon(graphs)
    compared = _comparisons(record, ways.results, epsilon)
    problems += _not_finite(ways.results["reference"])
    together = None
    if judged.wrong is None and is_matched and not all(each.agrees for each in compared):
        say(f"looking in {name} for ops that are wrong together, which takes several compilations")
        try:
            together = wrong_together(graphs, record.compile, budget)
            together = together or _wrong_across(record, ways, tape, epsilon)
        except Exception as failed:  # As above: the deviation is valid without it.
            problems.append(f"ops that are wrong together were not found: {first_line(failed)}")
    return GraphVerdict(
        name=name,
        backend=record.backend,
        op_count=judged.op_count,
        judged_ops=judged.judged,
        comparisons=tuple(compared),
        wrong=judged.wrong,
        random_ops=len(tape.drawn),
        is_random_matched=is_matched,
        problems=(*problems, *judged.problems),
        together=together,
    )


def _wrong_across(record: GraphCall, ways: Ways, tape: Tape, epsilon: float) -> WrongGroup | None:
    def is_wrong(graph: fx.GraphModule) -> bool:
        results = run(record, compiled(record, graph), tape)
        found = _comparisons(record, {**ways.results, "compiled": results}, epsilon)
        return not all(each.agrees for each in found)

    return wrong_across(record.graph, is_wrong)


def _comparisons(
    record: GraphCall, results: Mapping[str, Results], epsilon: float
) -> list[ResultComparison]:
    names = record.input_names
    eager, reference = results["eager"], results["reference"]
    outputs = {number: f"output {number}" for number in reference.outputs}
    gradients = {number: names[number] for number in reference.gradients}
    written = {
        number: names[number]
        for number, value in eager.inputs.items()
        if number not in eager.gradients and not torch.equal(value, record.inputs[number].detach())
    }
    of_outputs = {way: each.outputs for way, each in results.items()}
    of_inputs = {way: each.inputs for way, each in results.items()}
    of_gradients = {way: each.gradients for way, each in results.items()}
    return [
        *comparisons("output", outputs, of_outputs, epsilon),
        *comparisons("buffer", written, of_inputs, epsilon),
        *comparisons("gradient", gradients, of_gradients, epsilon),
    ]


def _not_finite(reference: Results) -> list[str]:
    """A sentence about results that hold NaN or infinities in float64 too."""
    results = [*reference.outputs.values(), *reference.gradients.values()]
    count = sum(not bool(torch.isfinite(each).all()) for each in results)
    if not count:
        return []
    return [
        f"{count} of {len(results)} outputs and gradients hold NaN or infinities in float64 too; "
        "only finite elements are compared, and sonde run --overflow finds where they begin"
    ]
