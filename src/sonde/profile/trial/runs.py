"""Runs a program and its variants, alternating, and judges the gain of each variant."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import start_file
from sonde.core.text.number_text import duration
from sonde.profile.document import FoundItem, Gain, Profile, TriedItem
from sonde.profile.record.launch import launch
from sonde.profile.rules.evidence import MUCH_SHARE
from sonde.profile.trial.clock import TrialOrder, TrialResult
from sonde.profile.trial.variants import NAMES, advice

LEAST_GAIN = 0.03
"""The least gain of a variant that is called faster."""

LOSS_TOLERANCE = 0.02
_NOT_FINITE = 1e9
"""The difference of a loss that is not finite."""
_BUCKETS = (1, 5, 100)

# Rules that find what the variant of this name changes.
_SAME = {"unfused-optimizer": "fused", "too-few-workers": "workers"}


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The program whose variants are run, for how many steps, and how often."""

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
    """The variants in ``"compile,amp"``; ``"all"`` is all of them."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if names == ("all",):
        return NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        what = f"there is no variant {unknown[0]!r}" if unknown else "no variant is named"
        raise UsageError(f"--try {text!r}: {what}; there are {', '.join(NAMES)}", slug="usage")
    return names


def impossible(names: Sequence[str], profile: Profile) -> list[TriedItem]:
    """The variants for which the program has nothing to change, according to its profile."""
    lacking = {}
    if not profile.loaders:
        lacking["workers"] = "the program has no DataLoader"
    if profile.collectives is None:
        lacking["buckets"] = "the program has no collectives"
    return [
        TriedItem(name, "not applicable", note=lacking[name]) for name in names if name in lacking
    ]


def with_values(names: Sequence[str], profile: Profile) -> list[str]:
    """The variants with the values to try, such as ``"workers=4"``, other than the present one."""
    cores = os.cpu_count() or 1
    variants: list[str] = []
    for name in names:
        if name == "workers":
            counts = {cores, 2 * cores} - {profile.loaders[-1].workers}
        elif name == "threads":
            counts = {1, max(1, cores // 2), cores} - {profile.machine.threads}
        elif name == "buckets":
            counts = set(_BUCKETS)
        else:
            variants.append(name)
            continue
        variants.extend(f"{name}={count}" for count in sorted(counts))
    return variants


def add_trials(
    profile: Profile, plan: TrialPlan, names: Sequence[str], say: Callable[[str], None]
) -> Profile:
    """Run the variants of the profiled program; returns its profile with their results."""
    skipped = impossible(names, profile)
    possible = [name for name in names if name not in {item.name for item in skipped}]
    tried = [*run_trials(plan, with_values(possible, profile), say), *skipped]
    return msgspec.structs.replace(
        profile,
        tried=tuple(tried),
        findings=merged_findings(profile.findings, tried),
        worth_trying=without_tried(profile.worth_trying, tried),
    )


def run_trials(
    plan: TrialPlan, variants: Sequence[str], say: Callable[[str], None]
) -> list[TriedItem]:
    """Run the program as it is and each variant, alternating, and judge each variant.

    A variant that cannot be applied, fails, or is not faster in two rounds is not run again.
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
            if _is_promising(each, base):
                _run_one(plan, each, number)
    return [_judge(each, base) for each in tried]


def without_tried(hints: Sequence[str], tried: Sequence[TriedItem]) -> tuple[str, ...]:
    """The hints, such as ``"amp: ..."``, whose variant was not tried."""
    done = {each.name.partition("=")[0] for each in tried}
    return tuple(hint for hint in hints if hint.partition(":")[0] not in done)


def merged_findings(
    findings: Sequence[FoundItem], tried: Sequence[TriedItem]
) -> tuple[FoundItem, ...]:
    """The findings of the profile and of the trials, greatest gain first.

    A finding that a trial confirms gets the trial's gain; one that it does not confirm is dropped.
    """
    best: dict[str, TriedItem | None] = {}
    for each in tried:
        kind = each.name.partition("=")[0]
        if each.verdict in ("no gain", "slower"):
            best.setdefault(kind, None)
        elif each.verdict == "faster":
            known = best.get(kind)
            best[kind] = each if known is None or _gain(each).share > _gain(known).share else known
    confirmed = {_SAME[found.rule]: found for found in findings if found.rule in _SAME}
    merged = [found for found in findings if _SAME.get(found.rule) not in best]
    for kind, fastest in best.items():
        if fastest is not None:
            found = confirmed.get(kind) or _finding(fastest)
            merged.append(msgspec.structs.replace(found, gain=_gain(fastest)))
    return tuple(sorted(merged, key=lambda found: found.gain.share, reverse=True))


def _gain(tried: TriedItem) -> Gain:
    before, after = tried.before or math.nan, tried.after or math.nan
    return Gain(before - after, 1 - after / before, "tried")


def _finding(tried: TriedItem) -> FoundItem:
    """The finding for a variant that was faster."""
    kind = tried.name.partition("=")[0]
    gain = _gain(tried)
    return FoundItem(
        rule=f"tried-{kind.replace('_', '-')}",
        direction={"workers": "data", "buckets": "multi-node"}.get(kind, "framework"),
        severity="warning" if gain.share >= MUCH_SHARE else "info",
        message=f"with {tried.name} a step takes {duration(tried.after or 0)} instead of "
        f"{duration(tried.before or 0)}, and the loss is the same within tolerance",
        advice=advice(tried.name),
        gain=gain,
        place=tried.place,
        evidence={"ratios": list(tried.ratios), "loss_difference": tried.loss_difference},
    )


def _run_one(plan: TrialPlan, runs: _Runs, number: int) -> None:
    stem = f"{runs.name or 'as-it-is'}-{number}".replace("=", "-")
    out, log_file = plan.directory / f"{stem}.json", plan.directory / f"{stem}.log"
    out.unlink(missing_ok=True)
    order = TrialOrder(runs.name, plan.warm_up, plan.steps, str(out))
    text = msgspec.json.encode(order).decode()
    with start_file(log_file) as log:
        code = launch(["--as-trial", text, *plan.program], ranks=plan.ranks, log=log)
    if code != 0 or not out.exists():
        runs.problem = f"it ended with exit code {code}; see {log_file}"
        return
    result = msgspec.json.decode(out.read_bytes(), type=TrialResult)
    if not result.seconds:
        runs.problem = "it made too few steps; choose earlier --steps"
    runs.results.append(result)


def _is_promising(runs: _Runs, base: _Runs) -> bool:
    if runs.problem or (runs.results and not runs.results[0].applied):
        return False
    ratios = _ratios(runs, base)
    return len(ratios) < 2 or min(ratios) < 1


def _judge(runs: _Runs, base: _Runs) -> TriedItem:
    first = runs.results[0] if runs.results else None
    if runs.problem or first is None:
        return TriedItem(runs.name, "failed", note=runs.problem)
    if not first.applied:
        note = first.note or "there is nothing in the program to change"
        return TriedItem(runs.name, "not applicable", note=note)
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
    """The time relative to the program in the same round, so that other load affects both."""
    return [
        _usual(result) / _usual(beside)
        for result, beside in zip(runs.results, base.results, strict=False)
    ]


def _usual(result: TrialResult) -> float:
    return statistics.median(result.seconds)


def _loss_difference(results: Sequence[TrialResult], base: Sequence[TrialResult]) -> float | None:
    """The largest relative difference of mean losses; None if the program computes no loss."""
    differences = []
    for result, beside in zip(results, base, strict=False):
        a, b = _mean_loss(result), _mean_loss(beside)
        if b is None or not any(beside.losses):
            return None
        differences.append(_NOT_FINITE if a is None else abs(a - b) / max(abs(b), 1e-8))
    return max(differences)


def _own_difference(base: Sequence[TrialResult]) -> float:
    """The relative difference of the program's own losses from round to round."""
    means = [mean for mean in map(_mean_loss, base) if mean is not None]
    if len(means) < 2:
        return 0.0
    return (max(means) - min(means)) / max(abs(statistics.mean(means)), 1e-8)


def _mean_loss(result: TrialResult) -> float | None:
    losses = [loss for loss in result.losses if loss is not None]
    return statistics.mean(losses) if len(losses) == len(result.losses) and losses else None
