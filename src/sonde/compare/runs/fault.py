"""Finds the ops that cause a divergence: their error is not explained by the errors they read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, sqrt

from sonde.compare.options import CompareOptions
from sonde.compare.runs.evidence import differing_attributes, inverse_deviation
from sonde.compare.runs.kinds import is_heavy, is_plumbing
from sonde.compare.runs.measure import Measured
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.result import Status
from sonde.compare.runs.run_side import behaviour
from sonde.compare.runs.tensor_pairs import Ends, PairDraft
from sonde.compare.runs.tolerance import GAIN, ROUNDOFF, Signal, allow
from sonde.core.dtypes import BY_NAME

_LEAST_SIMILAR = 3
_SIMILAR_FACTOR = 3.0
_LARGEST_CLEARED_EXCESS = 20.0
_ATTRIBUTE_UNITS = 2.0
_INCOMPLETE_INPUT_UNITS = 16.0
"""Added where some inputs cannot be compared, in units of the op's own rounding."""
_UNKNOWN_INPUT_UNITS = 4096.0
"""The tolerance in roundoffs if no input can be compared: the op ends a group of others."""


@dataclass(slots=True)
class AssessedPair:
    """A pair with its status; the errors are relative, those of its worst tensor."""

    draft: PairDraft
    status: Status
    error: float
    input_error: float
    tolerance: float
    allowed: float
    worst: Measured | None
    notes: list[str] = field(default_factory=list)


@dataclass
class FaultFinder:
    """Assesses the steps of one rank in order; remembers the parameters that earlier steps spoiled.

    ``mixed`` says that one side computes in lower precision by intent: most matrix products and
    convolutions do. A layer that alone does so is an error.
    """

    options: CompareOptions
    mixed: bool
    states: dict[str, bool] = field(default_factory=dict)
    is_first_step: bool = True

    def assess(self, drafts: Sequence[PairDraft], found: Alignment) -> list[AssessedPair]:
        """The status of each pair, in order."""
        step = _StepAssessment(self, found)
        assessed = [step.assess(draft) for draft in drafts]
        _clear_consistent(assessed)
        step.mark_inherited(assessed)
        self._remember(assessed, found)
        self.is_first_step = False
        return assessed

    def _remember(self, assessed: Sequence[AssessedPair], found: Alignment) -> None:
        """Note which parameters are wrong at the end of the step."""
        by_op = {each.draft.a.index: each for each in assessed if each.draft.state is None}
        for name, state in found.a.states().items():
            each = by_op.get(state.op.index)
            if each is not None:
                self.states[name] = each.status in ("diverged", "inherited")
        for each in assessed:
            if each.draft.state is not None:
                self.states[each.draft.state] = each.status in ("diverged", "inherited")


def is_mixed(drafts: Iterable[PairDraft]) -> bool:
    """Whether one side computes in lower precision on purpose.

    It does if most matrix products and convolutions have other dtypes than on the other side, or,
    without any, most of all tensors.
    """
    counts = {True: [0, 0], False: [0, 0]}
    for draft in drafts:
        for measured in draft.measured:
            a, b = measured.pair.a.dtype, measured.pair.b.dtype
            if a in ROUNDOFF and b in ROUNDOFF:
                tally = counts[is_heavy(draft.a.type) and not draft.is_leaf]
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
        self._signals: dict[Ends, Signal] = {}

    def assess(self, draft: PairDraft) -> AssessedPair:
        inputs = [self._signals[ends] for ends in draft.reads if ends in self._signals]
        inputs += [
            _signal(measured)
            for measured, ends in zip(draft.measured, draft.makes, strict=True)
            if ends is None and measured.pair.a.io == "input" and draft.state is None
        ]
        input_error = max((each.error for each in inputs), default=0.0)
        assessed = AssessedPair(draft, "not dumped", 0.0, input_error, 0.0, 0.0, None)
        excess = -1.0
        for measured, ends in zip(draft.measured, draft.makes, strict=True):
            if ends is not None:
                self._signals[ends] = _signal(measured)
            if measured.pair.a.io == "input" and ends is None and draft.state is None:
                continue
            if measured.pair.problem is not None:
                assessed.status, assessed.worst = "incomparable", measured
                assessed.notes.append(measured.pair.problem)
                continue
            own, allowed = self._tolerance(draft, measured, inputs, input_error)
            ratio = _ratio(measured, allowed)
            if (ratio > max(excess, 0.0) and assessed.status != "diverged") or excess < 0:
                excess = ratio
                assessed.error, assessed.worst = measured.error, measured
                assessed.tolerance, assessed.allowed = (
                    _relative(own, measured),
                    _relative(allowed, measured),
                )
                assessed.status = _status(measured, own, allowed)
        self._pass_on(draft, inputs)
        return assessed

    def _pass_on(self, draft: PairDraft, inputs: list[Signal]) -> None:
        """Give a pair whose tensors were not dumped the errors of its inputs."""
        if draft.measured or draft.is_leaf or not inputs:
            return
        worst = max(inputs, key=lambda each: each.error)
        value, twin = draft.a.value, draft.b.value
        self._signals.setdefault((value, twin), worst)

    def _tolerance(
        self, draft: PairDraft, measured: Measured, inputs: list[Signal], input_error: float
    ) -> tuple[float, float]:
        """The absolute error allowed to the op itself, and with the errors of its inputs."""
        options = self._finder.options
        out = _signal(measured)
        if options.is_strict:
            limit = (options.rtol or 0.0) * out.norm + (options.atol or 0.0) * sqrt(out.count)
            return limit, limit if not _exceeds(inputs, options) else inf
        roundoff = self._roundoff(measured, draft)
        if draft.is_leaf:
            return self._leaf_tolerance(draft, out, roundoff)
        if roundoff == 0.0:
            return 0.0, inf if input_error else 0.0
        how, kind = _rule(draft)
        conditioning = self._conditioning(draft) if "normalisation" in how else 1.0
        if len(draft.members_a) + len(draft.members_b) > 1:
            conditioning *= GAIN
        allowed = allow(how, kind, out, inputs, roundoff, conditioning)
        own, total = allowed.own, allowed.total
        if draft.is_blind:
            is_guess = draft.how == "order" or is_plumbing(draft.a.type)
            total = inf if is_guess else total + _INCOMPLETE_INPUT_UNITS * own
            if not inputs:
                total = max(total, _UNKNOWN_INPUT_UNITS * roundoff * out.norm)
        if input_error == 0.0 and differing_attributes(draft):
            own = total = min(own, _ATTRIBUTE_UNITS * roundoff * out.norm)
        return own, total

    def _leaf_tolerance(
        self, draft: PairDraft, out: Signal, roundoff: float
    ) -> tuple[float, float]:
        """Values at the start of a run are equal but for their dtype; later ones may differ as the
        previous step left them."""
        own = roundoff * out.norm * (1.0 if self._finder.mixed else 0.0)
        if draft.a.node_kind != "input" and not self._finder.is_first_step:
            return own, inf
        return own, own

    def _roundoff(self, measured: Measured, draft: PairDraft) -> float:
        """The roundoff of the coarser dtype; of the finer where only this pair mixes dtypes."""
        pair = measured.pair
        units = [ROUNDOFF.get(pair.a.dtype, 0.0), ROUNDOFF.get(pair.b.dtype, 0.0)]
        if 0.0 in units:
            floats = [BY_NAME.get(each.dtype) for each in (pair.a, pair.b)]
            if not any(dtype is not None and dtype.is_float for dtype in floats):
                return 0.0
        if self._finder.mixed or (is_plumbing(draft.a.type) and not draft.is_leaf):
            return max(units)  # The op that reads a cast decided on it.
        return min(units) or max(units)

    def _conditioning(self, draft: PairDraft) -> float:
        """The ratio of a normalisation's input to its deviation from the mean."""
        for op, side in ((draft.a, self._found.a), (draft.b, self._found.b)):
            spread = inverse_deviation(op, side)
            if spread is None:
                continue
            whole = max(
                (self._signals[ends] for ends in draft.reads if ends in self._signals),
                key=lambda each: each.count,
                default=None,
            )
            if whole is not None and whole.count:
                return max(1.0, spread * whole.norm / sqrt(whole.count))
        return GAIN

    def mark_inherited(self, assessed: Sequence[AssessedPair]) -> None:
        """Mark the pairs that read a diverged value as inherited."""
        bad: set[Ends] = set()
        for each in assessed:
            draft = each.draft
            inherits = any(ends in bad for ends in draft.reads) or self._inherits(draft)
            if inherits and each.status in ("diverged", "rounding", "incomparable"):
                each.status = "inherited"
            if inherits and each.status == "within" and each.error > each.tolerance:
                each.status = "inherited"
            is_bad = each.status in ("diverged", "inherited", "incomparable")
            if is_bad or (inherits and (not draft.measured or each.error > 0)):
                bad.update(ends for ends in draft.makes if ends is not None)
                if not draft.measured:
                    bad.add((draft.a.value, draft.b.value))

    def _inherits(self, draft: PairDraft) -> bool:
        if not draft.is_leaf or draft.a.node_kind != "parameter":
            return False
        return self._finder.states.get(draft.a.name, False)


def _rule(draft: PairDraft) -> tuple[str, str]:
    """The behaviour and the kind that bound the error of a pair."""
    if draft.assessed_as is not None:
        return behaviour(draft.assessed_as), draft.assessed_as.kind
    if draft.state is not None:
        # Statistics a normalisation keeps are means of what it reads.
        is_update = draft.a.phase == "optimizer"
        return ("update", draft.a.kind) if is_update else ("reduction", "mean")
    if draft.a.kind != draft.b.kind and (is_heavy(draft.a.type) or is_heavy(draft.b.type)):
        return "product", "matmul"
    return behaviour(draft.a), draft.a.kind


def _exceeds(inputs: Sequence[Signal], options: CompareOptions) -> bool:
    return any(
        each.l2_error > (options.rtol or 0.0) * each.norm + (options.atol or 0.0) * sqrt(each.count)
        for each in inputs
    )


def _ratio(measured: Measured, allowed: float) -> float:
    if measured.error == 0.0:
        return 0.0
    if measured.error == inf and isnan(measured.l2_error):
        return inf
    error = (
        inf
        if measured.pair.distances and measured.pair.distances.non_finite_disagreed
        else measured.l2_error
    )
    if allowed == 0.0:
        return inf
    return error / allowed if allowed != inf else 0.0


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


def _clear_consistent(assessed: Sequence[AssessedPair]) -> None:
    """Clear ops that exceed their tolerance slightly, as several others of their kind do.

    The bound is too narrow for that kind; the ops do not differ.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    for each in assessed:
        if each.worst is not None and each.input_error > 0 and not each.draft.is_leaf:
            ratios[each.draft.a.kind].append(_excess(each))
    for each in assessed:
        if each.status != "diverged" or each.draft.is_leaf or each.input_error == 0:
            continue
        excess = _excess(each)
        alike = sum(other >= excess / _SIMILAR_FACTOR for other in ratios[each.draft.a.kind]) - 1
        if excess <= _LARGEST_CLEARED_EXCESS and alike >= _LEAST_SIMILAR:
            each.status = "rounding"
            each.notes.append(f"as large as in {alike} other ops of its kind")


def _excess(assessed: AssessedPair) -> float:
    return assessed.error / assessed.allowed if assessed.allowed else inf
