"""Runs a program and its variants in turns, and judges what each brought."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sonde.core.errors import UsageError
from sonde.profile.document import FoundItem, Gain, Profile, TriedItem
from sonde.profile.record.launch import launch
from sonde.profile.trial.clock import TrialOrder, TrialResult
from sonde.profile.trial.variants import ADVICE, NAMES

LEAST_GAIN = 0.03
"""A variant has to be this much faster, in every round, to be called so."""

LOSS_TOLERANCE = 0.02
_MUCH = 0.2
_BUCKETS = (1, 5, 100)

# Findings that say the same as a trial.
_SAME = {"unfused-optimizer": "fused", "too-few-workers": "workers"}


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """Of which program to run variants, how long, and how often."""

    program: tuple[str, ...]
    warm_up: int
    steps: int
    rounds: int
    ranks: int
    directory: Path


@dataclass(slots=True)
class _Runs:
    """The rounds of one variant so far."""

    name: str
    results: list[TrialResult] = field(default_factory=list)
    problem: str = ""


def parse_names(text: str) -> tuple[str, ...]:
    """``"compile,amp"``; ``"all"`` is every one there is."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if names == ("all",):
        return NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        what = f"there is no variant {unknown[0]!r}" if unknown else "no variant is named"
        raise UsageError(f"--try {text!r}: {what}; there are {', '.join(NAMES)}", slug="usage")
    return names


def impossible(names: Sequence[str], profile: Profile) -> list[TriedItem]:
    """The variants that the program has nothing for, as far as its profile shows."""
    lacking = {}
    if not profile.loaders:
        lacking["workers"] = "the program has no DataLoader"
    if profile.collectives is None:
        lacking["buckets"] = "the program has no collectives"
    return [
        TriedItem(name, "not applicable", None, None, (), None, note=lacking[name])
        for name in names
        if name in lacking
    ]


def with_values(names: Sequence[str], profile: Profile) -> list[str]:
    """The variants with the values to try, from how the program is now."""
    cores = os.cpu_count() or 1
    variants: list[str] = []
    for name in names:
        if name == "workers":
            counts = {cores, 2 * cores} - {profile.loaders[-1].workers}
            variants.extend(f"workers={count}" for count in sorted(counts))
        elif name == "threads":
            counts = {1, max(1, cores // 2), cores} - {profile.machine.threads}
            variants.extend(f"threads={count}" for count in sorted(counts))
        elif name == "buckets":
            variants.extend(f"buckets={size}" for size in _BUCKETS)
        else:
            variants.append(name)
    return variants


def run_trials(
    plan: TrialPlan, variants: Sequence[str], say: Callable[[str], None]
) -> list[TriedItem]:
    """Run the program as it is and each variant, in turns, and judge.

    A variant that cannot be applied, fails, or is no faster in two rounds gets no further turn.
    """
    plan.directory.mkdir(parents=True, exist_ok=True)
    base = _Runs("")
    tried = [_Runs(name) for name in variants]
    for number in range(plan.rounds):
        say(f"sonde: trying, round {number + 1} of {plan.rounds}")
        _run_one(plan, base, number)
        if base.problem:
            raise UsageError(
                f"the program itself failed when it was run for a trial: {base.problem}",
                slug="profile-trial",
            )
        for each in tried:
            if _deserves_a_turn(each, base):
                _run_one(plan, each, number)
    return [_judge(each, base) for each in tried]


def without_tried(hints: Sequence[str], tried: Sequence[TriedItem]) -> tuple[str, ...]:
    """The hints, such as ``"amp: ..."``, whose variant had no trial."""
    done = {each.name.partition("=")[0] for each in tried}
    return tuple(hint for hint in hints if hint.partition(":")[0] not in done)


def merged_findings(
    findings: Sequence[FoundItem], tried: Sequence[TriedItem]
) -> tuple[FoundItem, ...]:
    """Findings and what was tried as one list, greatest gain first.

    What a trial confirms has the trial's gain; what it does not confirm is dropped.
    """
    by_kind: dict[str, list[TriedItem]] = {}
    for each in tried:
        if each.verdict in ("faster", "no gain", "slower"):
            by_kind.setdefault(each.name.partition("=")[0], []).append(each)
    kept: list[FoundItem] = []
    settled: set[str] = set()
    for found in findings:
        kind = _SAME.get(found.rule)
        if kind is None or kind not in by_kind:
            kept.append(found)
            continue
        best = _fastest(by_kind[kind])
        settled.add(kind)
        if best is not None and best.before is not None and best.after is not None:
            gain = Gain(best.before - best.after, 1 - best.after / best.before, "tried")
            kept.append(msgspec.structs.replace(found, gain=gain))
    for kind, group in by_kind.items():
        best = _fastest(group)
        if best is not None and kind not in settled:
            kept.extend(found_in([best]))
    return tuple(sorted(kept, key=lambda found: found.gain.share, reverse=True))


def _fastest(group: Sequence[TriedItem]) -> TriedItem | None:
    """The best of those that were faster; None if none was."""
    faster = [each for each in group if each.verdict == "faster"]
    return min(faster, key=lambda each: each.after or math.inf) if faster else None


def found_in(tried: Sequence[TriedItem]) -> list[FoundItem]:
    """Variants that were faster, as findings."""
    found = []
    for each in tried:
        if each.verdict != "faster" or each.before is None or each.after is None:
            continue
        kind, _, value = each.name.partition("=")
        share = 1 - each.after / each.before
        found.append(
            FoundItem(
                rule=f"tried-{kind.replace('_', '-')}",
                direction={"workers": "data", "buckets": "multi-node"}.get(kind, "framework"),
                severity="warning" if share >= _MUCH else "info",
                message=f"with {each.name} a step takes {1e3 * each.after:.3g} ms instead of "
                f"{1e3 * each.before:.3g} ms, and the loss is the same within tolerance",
                advice=ADVICE[kind].format(value=value),
                gain=Gain(each.before - each.after, share, "tried"),
                place=each.place,
                evidence={"ratios": list(each.ratios), "loss_difference": each.loss_difference},
            )
        )
    return found


def _run_one(plan: TrialPlan, runs: _Runs, number: int) -> None:
    stem = f"{runs.name or 'as-it-is'}-{number}".replace("=", "-")
    out = plan.directory / f"{stem}.json"
    out.unlink(missing_ok=True)
    order = TrialOrder(runs.name, plan.warm_up, plan.steps, str(out))
    text = msgspec.json.encode(order).decode()
    with open(plan.directory / f"{stem}.log", "wb") as log:
        code = launch(["--as-trial", text, *plan.program], ranks=plan.ranks, log=log)
    if code != 0 or not out.exists():
        runs.problem = f"it ended with exit code {code}; see {plan.directory / f'{stem}.log'}"
        return
    result = msgspec.json.decode(out.read_bytes(), type=TrialResult)
    if not result.seconds:
        runs.problem = "it made too few steps; choose earlier --steps"
    runs.results.append(result)


def _deserves_a_turn(runs: _Runs, base: _Runs) -> bool:
    if runs.problem or (runs.results and not runs.results[0].applied):
        return False
    ratios = _ratios(runs, base)
    return len(ratios) < 2 or min(ratios) < 1


def _judge(runs: _Runs, base: _Runs) -> TriedItem:
    first = runs.results[0] if runs.results else None
    if runs.problem or first is None:
        return TriedItem(runs.name, "failed", None, None, (), None, note=runs.problem)
    if not first.applied:
        note = first.note or "there is nothing in the program to change"
        return TriedItem(runs.name, "not applicable", None, None, (), None, note=note)
    ratios = _ratios(runs, base)
    before = statistics.median(_usual(result) for result in base.results)
    ratio = statistics.median(ratios)
    difference = _loss_difference(runs.results, base.results)
    allowed = max(LOSS_TOLERANCE, 2 * _own_difference(base.results))
    if difference is not None and not difference <= allowed:
        verdict = "the loss differs"
    elif ratio <= 1 - LEAST_GAIN and max(ratios) < 1:
        verdict = "faster"
    else:
        verdict = "slower" if min(ratios) > 1 + LEAST_GAIN else "no gain"
    return TriedItem(
        name=runs.name,
        verdict=verdict,
        before=before,
        after=before * ratio,
        ratios=tuple(ratios),
        loss_difference=difference,
        place=first.place,
        note=first.note,
    )


def _ratios(runs: _Runs, base: _Runs) -> list[float]:
    """Round by round, so that a slow hour of the machine does not count against either."""
    return [
        _usual(result) / _usual(beside)
        for result, beside in zip(runs.results, base.results, strict=False)
    ]


def _usual(result: TrialResult) -> float:
    return statistics.median(result.seconds)


def _loss_difference(results: Sequence[TrialResult], base: Sequence[TrialResult]) -> float | None:
    """The largest relative difference of mean losses; infinite losses make it infinite.

    None where no backward of a single number was seen.
    """
    differences = []
    for result, beside in zip(results, base, strict=False):
        a, b = _mean_loss(result), _mean_loss(beside)
        if b is None or not any(beside.losses):
            return None
        differences.append(math.inf if a is None else abs(a - b) / max(abs(b), 1e-8))
    finite = [value for value in differences if math.isfinite(value)]
    return max(finite) if len(finite) == len(differences) else 1e9


def _own_difference(base: Sequence[TrialResult]) -> float:
    """How far the program's losses are from themselves, run again."""
    means = [mean for mean in map(_mean_loss, base) if mean is not None]
    if len(means) < 2:
        return 0.0
    return (max(means) - min(means)) / max(abs(statistics.mean(means)), 1e-8)


def _mean_loss(result: TrialResult) -> float | None:
    losses = [loss for loss in result.losses if loss is not None]
    return statistics.mean(losses) if len(losses) == len(result.losses) and losses else None
