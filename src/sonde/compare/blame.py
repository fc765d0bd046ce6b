"""Which ops are at fault: those whose error is out of line with the errors of what they read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, sqrt

from sonde.compare.alignment import Alignment
from sonde.compare.allowance import GAIN, ROUNDOFF, Signal, allow
from sonde.compare.drafts import Draft, Ends
from sonde.compare.evidence import differing_attributes, inverse_deviation
from sonde.compare.kinds import is_heavy, is_plumbing
from sonde.compare.measure import Measured
from sonde.compare.options import CompareOptions
from sonde.compare.result import Status
from sonde.compare.side import behaviour
from sonde.core.dtypes import BY_NAME

_NEIGHBOURS = 3
_IN_LINE = 3.0
_SPARED_UP_TO = 20.0
_ATTRIBUTE_UNITS = 2.0
_BLIND = 16.0
"""What an op may have more where part of what it reads cannot be compared, in its own rounding."""
_UNKNOWN = 4096.0
"""Roundoffs an op may have if nothing it reads can be compared: the end of a group of others."""


@dataclass(slots=True)
class Judged:
    """A draft with its verdict; errors are relative, of its worst tensor."""

    draft: Draft
    status: Status
    error: float
    input_error: float
    tolerance: float
    allowed: float
    worst: Measured | None
    notes: list[str] = field(default_factory=list)


@dataclass
class Jury:
    """Judges the steps of one rank, one after the other; remembers what earlier steps left.

    ``mixed`` says that one side computes in lower precision by intent: most matrix products and
    convolutions do. A layer that alone does so is an error.
    """

    options: CompareOptions
    mixed: bool
    states: dict[str, bool] = field(default_factory=dict)
    is_first_step: bool = True

    def judge(self, drafts: Sequence[Draft], found: Alignment) -> list[Judged]:
        """The status of each draft, in order."""
        step = _Step(self, found)
        judged = [step.judge(draft) for draft in drafts]
        _spare_those_in_line(judged)
        step.taint(judged)
        self._remember(judged, found)
        self.is_first_step = False
        return judged

    def _remember(self, judged: Sequence[Judged], found: Alignment) -> None:
        """Which parameters are wrong when the step is over."""
        by_op = {each.draft.a.index: each for each in judged if each.draft.state is None}
        for name, state in found.a.states().items():
            each = by_op.get(state.op.index)
            if each is not None:
                self.states[name] = each.status in ("diverged", "inherited")
        for each in judged:
            if each.draft.state is not None:
                self.states[each.draft.state] = each.status in ("diverged", "inherited")


def is_mixed(drafts: Iterable[Draft]) -> bool:
    """Whether lower precision on one side is a choice, not an accident: most of the matrix
    products and convolutions, or without any most of all tensors, have other dtypes."""
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


class _Step:
    """One step's judgement: errors of values known so far."""

    def __init__(self, jury: Jury, found: Alignment) -> None:
        self._jury = jury
        self._found = found
        self._signals: dict[Ends, Signal] = {}

    def judge(self, draft: Draft) -> Judged:
        inputs = [self._signals[ends] for ends in draft.reads if ends in self._signals]
        inputs += [
            _signal(measured)
            for measured, ends in zip(draft.measured, draft.makes, strict=True)
            if ends is None and measured.pair.a.io == "input" and draft.state is None
        ]
        input_error = max((each.error for each in inputs), default=0.0)
        judged = Judged(draft, "not dumped", 0.0, input_error, 0.0, 0.0, None)
        excess = -1.0
        for measured, ends in zip(draft.measured, draft.makes, strict=True):
            if ends is not None:
                self._signals[ends] = _signal(measured)
            if measured.pair.a.io == "input" and ends is None and draft.state is None:
                continue
            if measured.pair.problem is not None:
                judged.status, judged.worst = "incomparable", measured
                judged.notes.append(measured.pair.problem)
                continue
            own, allowed = self._allowance(draft, measured, inputs, input_error)
            ratio = _ratio(measured, allowed)
            if (ratio > max(excess, 0.0) and judged.status != "diverged") or excess < 0:
                excess = ratio
                judged.error, judged.worst = measured.error, measured
                judged.tolerance, judged.allowed = (
                    _relative(own, measured),
                    _relative(allowed, measured),
                )
                judged.status = _status(measured, own, allowed)
        self._pass_on(draft, inputs)
        return judged

    def _pass_on(self, draft: Draft, inputs: list[Signal]) -> None:
        """A pair whose tensors were not dumped passes on the errors of what it read."""
        if draft.measured or draft.is_leaf or not inputs:
            return
        worst = max(inputs, key=lambda each: each.error)
        value, twin = draft.a.value, draft.b.value
        self._signals.setdefault((value, twin), worst)

    def _allowance(
        self, draft: Draft, measured: Measured, inputs: list[Signal], input_error: float
    ) -> tuple[float, float]:
        """Absolute: on its own, in all."""
        options = self._jury.options
        out = _signal(measured)
        if options.is_strict:
            limit = (options.rtol or 0.0) * out.norm + (options.atol or 0.0) * sqrt(out.count)
            return limit, limit if not _exceeds(inputs, options) else inf
        roundoff = self._roundoff(measured, draft)
        if draft.is_leaf:
            return self._leaf_allowance(draft, out, roundoff)
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
            total = inf if is_guess else total + _BLIND * own
            if not inputs:
                total = max(total, _UNKNOWN * roundoff * out.norm)
        if input_error == 0.0 and differing_attributes(draft):
            own = total = min(own, _ATTRIBUTE_UNITS * roundoff * out.norm)
        return own, total

    def _leaf_allowance(self, draft: Draft, out: Signal, roundoff: float) -> tuple[float, float]:
        """What a run begins with is equal, but for its dtype; later it is what the step before
        left of it."""
        own = roundoff * out.norm * (1.0 if self._jury.mixed else 0.0)
        if draft.a.node_kind != "input" and not self._jury.is_first_step:
            return own, inf
        return own, own

    def _roundoff(self, measured: Measured, draft: Draft) -> float:
        """Of the coarser dtype; of the finer where only this pair has two."""
        pair = measured.pair
        units = [ROUNDOFF.get(pair.a.dtype, 0.0), ROUNDOFF.get(pair.b.dtype, 0.0)]
        if 0.0 in units:
            floats = [BY_NAME.get(each.dtype) for each in (pair.a, pair.b)]
            if not any(dtype is not None and dtype.is_float for dtype in floats):
                return 0.0
        if self._jury.mixed or (is_plumbing(draft.a.type) and not draft.is_leaf):
            return max(units)  # A cast is its reader's doing.
        return min(units) or max(units)

    def _conditioning(self, draft: Draft) -> float:
        """How much larger a normalisation's input is than what is left without its mean."""
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

    def taint(self, judged: Sequence[Judged]) -> None:
        """What reads something at fault inherits the fault."""
        bad: set[Ends] = set()
        for each in judged:
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

    def _inherits(self, draft: Draft) -> bool:
        if not draft.is_leaf or draft.a.node_kind != "parameter":
            return False
        return self._jury.states.get(draft.a.name, False)


def _rule(draft: Draft) -> tuple[str, str]:
    """The behaviour and the kind that bound the error of a pair."""
    if draft.judged_as is not None:
        return behaviour(draft.judged_as), draft.judged_as.kind
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


def _spare_those_in_line(judged: Sequence[Judged]) -> None:
    """Several ops of a kind that exceed their allowance a little and alike are no faults: the
    bound is too narrow for them."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for each in judged:
        if each.worst is not None and each.input_error > 0 and not each.draft.is_leaf:
            ratios[each.draft.a.kind].append(_excess(each))
    for each in judged:
        if each.status != "diverged" or each.draft.is_leaf or each.input_error == 0:
            continue
        excess = _excess(each)
        alike = sum(other >= excess / _IN_LINE for other in ratios[each.draft.a.kind]) - 1
        if excess <= _SPARED_UP_TO and alike >= _NEIGHBOURS:
            each.status = "rounding"
            each.notes.append(f"as large as in {alike} other ops of its kind")


def _excess(judged: Judged) -> float:
    return judged.error / judged.allowed if judged.allowed else inf
