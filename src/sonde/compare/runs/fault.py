"""Finds the ops that cause a divergence: their error is not explained by the errors they read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, sqrt

import numpy as np

from sonde.compare.options import CompareOptions
from sonde.compare.runs.measure import Measured
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.result import Status
from sonde.compare.runs.run_side import RunSide, SideOp, behaviour
from sonde.compare.runs.tensor_pairs import PendingPair, ValuePair
from sonde.compare.runs.tolerance import GAIN, ROUNDOFF, Signal, allow
from sonde.core.dtypes import BY_NAME
from sonde.core.errors import DumpError
from sonde.core.operators.kinds import is_heavy, is_plumbing

_LEAST_SIMILAR = 3
_SIMILAR_FACTOR = 3.0
_LARGEST_CLEARED_EXCESS = 20.0
_ARGUMENT_UNITS = 2.0
_INCOMPLETE_INPUT_UNITS = 16.0
"""Added where some inputs cannot be compared, in units of the op's own rounding."""
PERTURBED_FACTOR = 8.0
"""How much larger an error may be than that of the reference after its weights were changed in
their last bits: a change of one unit stands for the few units of another summation order. Healthy
runs of docs/compare.md reach 3.3 (bfloat16: 11.3), planted faults thousands and more."""
_UNKNOWN_INPUT_UNITS = 4096.0
"""The tolerance in roundoffs if no input can be compared: the op ends a group of others."""


@dataclass
class FaultFinder:
    """Assesses the steps of one rank in order.

    ``mixed``: one side computes in lower precision by intent, as most of its matrix products and
    convolutions show. A single layer in lower precision is an error instead. ``states`` says for
    each parameter whether its value was wrong at the end of the previous step.
    """

    options: CompareOptions
    mixed: bool
    states: dict[str, bool] = field(default_factory=dict)
    is_first_step: bool = True

    def assess(self, pairs: Sequence[PendingPair], found: Alignment) -> None:
        """Set the status and the errors of each pair."""
        step = _StepAssessment(self, found)
        for pair in pairs:
            step.assess(pair)
        _clear_consistent(pairs)
        step.mark_inherited(pairs)
        self._remember(pairs, found)
        self.is_first_step = False

    def _remember(self, pairs: Sequence[PendingPair], found: Alignment) -> None:
        """Record which parameters are wrong at the end of the step."""
        by_op = {pair.a.index: pair for pair in pairs if pair.state is None}
        last = {name: by_op.get(state.op.index) for name, state in found.a.states().items()}
        last.update((pair.state, pair) for pair in pairs if pair.state is not None)
        for name, each in last.items():
            if each is not None:
                self.states[name] = each.status in ("diverged", "inherited")


def is_mixed(pairs: Iterable[PendingPair]) -> bool:
    """Whether one side computes in lower precision by intent.

    It does if the dtypes of most matrix products and convolutions differ between the sides; if
    there are none, of most tensors.
    """
    counts = {True: [0, 0], False: [0, 0]}
    for pair in pairs:
        for measured in pair.measured:
            a, b = measured.pair.a.dtype, measured.pair.b.dtype
            if a in ROUNDOFF and b in ROUNDOFF:
                tally = counts[is_heavy(pair.a.type) and not pair.is_leaf]
                tally[0] += a != b
                tally[1] += 1
    other, total = counts[True] if counts[True][1] else counts[False]
    return total > 0 and other > total / 2


def _signal(measured: Measured) -> Signal:
    l2_error = inf if measured.error == inf else measured.l2_error
    distances = measured.pair.distances
    noise = 0.0 if distances is None else distances.mean_relative_error
    return Signal(l2_error, measured.norm, measured.count, measured.max_abs_error, noise)


class _StepAssessment:
    """Assesses one step; holds the errors of the values known so far."""

    def __init__(self, finder: FaultFinder, found: Alignment) -> None:
        self._finder = finder
        self._found = found
        self._signals: dict[ValuePair, Signal] = {}

    def assess(self, pair: PendingPair) -> None:
        inputs = [self._signals[value] for value in pair.reads if value in self._signals]
        outputs: list[Measured] = []
        for measured, value in zip(pair.measured, pair.makes, strict=True):
            if value is None and measured.pair.a.io == "input" and pair.state is None:
                inputs.append(_signal(measured))
            else:
                outputs.append(measured)
            if value is not None:
                self._signals[value] = _signal(measured)
        pair.input_error = max((each.error for each in inputs), default=0.0)
        excess = -1.0
        for measured in outputs:
            if measured.pair.problem is not None:
                pair.status = "incomparable"
                pair.notes.append(measured.pair.problem)
                continue
            own, allowed = self._tolerance(pair, measured, inputs)
            ratio = _ratio(measured, allowed)
            if (ratio > max(excess, 0.0) and pair.status != "diverged") or excess < 0:
                excess = ratio
                pair.error = measured.error
                pair.tolerance = _relative(own, measured)
                pair.allowed = _relative(allowed, measured)
                pair.status = _status(measured, own, allowed)
        self._pass_on(pair, inputs)

    def _pass_on(self, pair: PendingPair, inputs: list[Signal]) -> None:
        """Give a pair whose tensors were not dumped the errors of its inputs."""
        if not pair.measured and not pair.is_leaf and inputs:
            self._signals.setdefault(pair.value, max(inputs, key=lambda each: each.error))

    def _tolerance(
        self, pair: PendingPair, measured: Measured, inputs: list[Signal]
    ) -> tuple[float, float]:
        """The absolute error allowed to the op itself, and with the errors of its inputs."""
        options = self._finder.options
        out = _signal(measured)
        if options.is_strict:
            has_bad_input = any(each.l2_error > _limit(options, each) for each in inputs)
            return _limit(options, out), inf if has_bad_input else _limit(options, out)
        roundoff = self._roundoff(measured, pair)
        if pair.is_leaf:
            return self._leaf_tolerance(pair, out, roundoff)
        if roundoff == 0.0:
            return 0.0, inf if pair.input_error else 0.0
        how, kind = _rule(pair)
        conditioning = self._conditioning(pair) if "normalisation" in how else 1.0
        if len(pair.members_a) + len(pair.members_b) > 1:
            conditioning *= GAIN
        allowed = allow(how, kind, out, inputs, roundoff, conditioning)
        own, total = allowed.own, allowed.total
        if pair.has_unknown_inputs:
            is_guess = pair.how == "order" or is_plumbing(pair.a.type)
            total = inf if is_guess else total + _INCOMPLETE_INPUT_UNITS * own
            if not inputs:
                total = max(total, _UNKNOWN_INPUT_UNITS * roundoff * out.norm)
        total = max(total, PERTURBED_FACTOR * measured.perturbed_error)
        if pair.input_error == 0.0 and pair.differing_arguments():
            own = total = min(own, _ARGUMENT_UNITS * roundoff * out.norm)
        return own, total

    def _leaf_tolerance(
        self, pair: PendingPair, out: Signal, roundoff: float
    ) -> tuple[float, float]:
        """At the start of a run only the dtype may differ. In later steps a parameter may differ
        by as much as the previous step allowed."""
        own = roundoff * out.norm * (1.0 if self._finder.mixed else 0.0)
        if pair.a.node_kind != "input" and not self._finder.is_first_step:
            return own, inf
        return own, own

    def _roundoff(self, measured: Measured, pair: PendingPair) -> float:
        """The roundoff of the coarser dtype; of the finer if only this pair mixes dtypes."""
        dtypes = measured.pair.a.dtype, measured.pair.b.dtype
        units = [ROUNDOFF.get(dtype, 0.0) for dtype in dtypes]
        if 0.0 in units:
            known = [BY_NAME.get(dtype) for dtype in dtypes]
            if not any(dtype is not None and dtype.is_float for dtype in known):
                return 0.0
        if self._finder.mixed or (is_plumbing(pair.a.type) and not pair.is_leaf):
            return max(units)  # The op that reads the result of a cast is assessed instead.
        return min(units) or max(units)

    def _conditioning(self, pair: PendingPair) -> float:
        """The ratio of a normalisation's input to its deviation from the mean."""
        for op, side in ((pair.a, self._found.a), (pair.b, self._found.b)):
            spread = _inverse_deviation(op, side)
            if spread is None:
                continue
            whole = max(
                (self._signals[value] for value in pair.reads if value in self._signals),
                key=lambda each: each.count,
                default=None,
            )
            if whole is not None and whole.count:
                return max(1.0, spread * whole.norm / sqrt(whole.count))
        return GAIN

    def mark_inherited(self, pairs: Sequence[PendingPair]) -> None:
        """Mark the pairs that read a diverged value as inherited."""
        bad: set[ValuePair] = set()
        for pair in pairs:
            is_wrong_parameter = (
                pair.is_leaf
                and pair.a.node_kind == "parameter"
                and self._finder.states.get(pair.a.name, False)
            )
            inherits = is_wrong_parameter or any(value in bad for value in pair.reads)
            if inherits and pair.status in ("diverged", "rounding", "incomparable"):
                pair.status = "inherited"
            if inherits and pair.status == "within" and pair.error > pair.tolerance:
                pair.status = "inherited"
            is_bad = pair.status in ("diverged", "inherited", "incomparable")
            if is_bad or (inherits and (not pair.measured or pair.error > 0)):
                bad.update(value for value in pair.makes if value is not None)
                if not pair.measured:
                    bad.add(pair.value)


def _inverse_deviation(op: SideOp, side: RunSide) -> float | None:
    """The mean of 1/std that a normalisation saved; for a backward op, that it read."""
    if op.type.startswith("native_") and op.type.endswith("_backward"):
        slot = 6 if "batch" in op.type else 3 if "layer" in op.type else -1
        record = side.records.get((op.name, "input", slot))
    elif op.type in ("native_batch_norm", "native_layer_norm", "native_group_norm"):
        record = side.records.get((op.name, "output", 2))
    else:
        return None
    if record is None or record.path is None:
        return None
    try:
        values = np.asarray(record.numpy(), np.float64)
    except DumpError:
        return None
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else None


def _rule(pair: PendingPair) -> tuple[str, str]:
    """The behaviour and the kind that bound the error of a pair."""
    if pair.assessed_as is not None:
        return behaviour(pair.assessed_as), pair.assessed_as.kind
    if pair.state is not None:
        # The running statistics of a normalisation are means of its input.
        is_update = pair.a.phase == "optimizer"
        return ("update", pair.a.kind) if is_update else ("reduction", "mean")
    if pair.a.kind != pair.b.kind and (is_heavy(pair.a.type) or is_heavy(pair.b.type)):
        return "product", "matmul"
    return behaviour(pair.a), pair.a.kind


def _limit(options: CompareOptions, signal: Signal) -> float:
    """The absolute error that the given tolerances allow."""
    return (options.rtol or 0.0) * signal.norm + (options.atol or 0.0) * sqrt(signal.count)


def _ratio(measured: Measured, allowed: float) -> float:
    if measured.error == 0.0:
        return 0.0
    if measured.error == inf and isnan(measured.l2_error):
        return inf
    if allowed in (0.0, inf):
        return inf if allowed == 0.0 else 0.0
    distances = measured.pair.distances
    disagrees = distances is not None and distances.non_finite_disagreed
    return (inf if disagrees else measured.l2_error) / allowed


def _relative(absolute: float, measured: Measured) -> float:
    if absolute in (0.0, inf):
        return absolute
    return absolute / measured.norm if measured.norm else inf


def _status(measured: Measured, own: float, allowed: float) -> Status:
    if measured.error == 0.0:
        return "equal"
    if _ratio(measured, own) <= 1.0:
        return "within"
    return "rounding" if _ratio(measured, allowed) <= 1.0 else "diverged"


def _clear_consistent(pairs: Sequence[PendingPair]) -> None:
    """Accept ops that exceed their tolerance slightly if several others of their kind do, too.

    In that case the bound is too narrow for the kind of op.
    """
    excess: dict[str, list[float]] = defaultdict(list)
    candidates = [pair for pair in pairs if not pair.is_leaf and pair.input_error > 0]
    for pair in candidates:
        if pair.status != "not dumped":
            excess[pair.a.kind].append(_excess(pair))
    for pair in candidates:
        own = _excess(pair)
        alike = sum(other >= own / _SIMILAR_FACTOR for other in excess[pair.a.kind]) - 1
        is_slight = own <= _LARGEST_CLEARED_EXCESS and alike >= _LEAST_SIMILAR
        if pair.status == "diverged" and is_slight:
            pair.status = "rounding"
            pair.notes.append(f"as large as in {alike} other ops of its kind")


def _excess(pair: PendingPair) -> float:
    return pair.error / pair.allowed if pair.allowed else inf
