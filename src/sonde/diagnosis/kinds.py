"""Every kind of finding in words: the index of the catalogue, for all parts of Sonde.

The rules of a diagnosis describe themselves (`catalogue`); the tables below have the kinds that
other parts report. A kind means the same wherever it is reported, and has one page: in
``docs/rules``, or a section of the page about the part that reports it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from sonde.core.finding import EvidenceStatus
from sonde.diagnosis.catalogue import own_rules


@dataclass(frozen=True, slots=True)
class RuleText:
    """A kind in words. ``what``: a sentence. ``status`` and ``advice``: of a finding that a check
    of one step or one file makes, which knows no lines; empty where only a diagnosis reports it."""

    what: str
    advice: str = ""
    status: EvidenceStatus = "established"


CHECKS: Final[Mapping[str, RuleText]] = {
    "no-gradient": RuleText(
        "No gradient reaches a weight that is to be trained.",
        "is it used in forward, and not behind detach() or no_grad()?",
    ),
    "gradient-zero": RuleText(
        "The gradient of a weight is exactly zero.",
        "look for dead activations, a masked loss or a factor of zero",
    ),
    "gradient-not-finite": RuleText(
        "The gradient of a weight has NaN or Inf.",
        "lower the loss scale, or find the op that made them: sonde run --overflow train.py",
    ),
    "weight-not-finite": RuleText(
        "A weight has NaN or Inf.",
        "find the op that made the first one: sonde run --overflow train.py",
    ),
    "no-optimizer-step": RuleText(
        "A weight has a gradient, but no optimizer stepped.",
        "a GradScaler skips the steps whose gradients have NaN or Inf",
    ),
    "learning-rate-zero": RuleText(
        "The learning rate of a weight is zero.", "is that the begin of a warm-up?"
    ),
    "weight-unchanged": RuleText("A weight is the same in two checkpoints or networks."),
}
"""Of the checks of ``sonde.train``."""

CHECKPOINTS: Final[Mapping[str, RuleText]] = {
    "negative-variance": RuleText("A running variance is below zero."),
    "dead-rows": RuleText("Rows of a weight matrix are all zeros.", status="supported"),
    "initial-spread": RuleText(
        "The standard deviation of a weight is far from what its number of inputs suggests.",
        status="supported",
    ),
    "initial-mean": RuleText(
        "The mean of a weight is larger than its standard deviation.", status="supported"
    ),
    "large-weight": RuleText(
        "A weight has an element that is unusually large for its type.", status="supported"
    ),
    "weight-not-checked": RuleText(
        "A dump has no counts of NaN and Inf of a weight.", status="hypothesis"
    ),
}
"""Of ``sonde ckpt check``, besides kinds of the diagnosis and of the checks."""

SPEED: Final[Mapping[str, RuleText]] = {
    "data-wait": RuleText("The training process loads the data itself, and waits for it."),
    "too-few-workers": RuleText("The queue of a DataLoader is empty; more workers fill it faster."),
    "slow-dataset": RuleText("More workers of a DataLoader do not help: the dataset is slow."),
    "synchronisation": RuleText("The value of a tensor is read in every step, which waits for it."),
    "needless-cast": RuleText("Values are converted between floating-point types and back."),
    "layout-flip": RuleText("A copy into another memory layout is undone by the next copy."),
    "python-time": RuleText("Python code of the program runs while no op does."),
    "recompilation": RuleText("torch.compile compiles the same code again."),
    "unfused-optimizer": RuleText("The optimizer updates parameters one by one."),
    "exposed-collectives": RuleText("Ranks wait for each other and compute nothing meanwhile."),
    "float64": RuleText("Matrix products run in float64, and would be faster in float32."),
    "unaligned": RuleText("Matrix products have sizes that are slow: no multiples of 16."),
    "small-batch": RuleText("The batch is so small that a larger one costs hardly more."),
    "tried": RuleText("A variant of --try was faster, with the same loss."),
}
"""Of ``sonde profile``: supported by a measurement of the gain. ``tried-compile`` is of the kind
``tried``."""

RANKS: Final[Mapping[str, RuleText]] = {
    "replicas-differ": RuleText("Replicated weights or optimizer states differ after a step."),
    "shards-equal": RuleText("Shards of one weight are copies of each other."),
    "gradients-not-exchanged": RuleText("Gradients of replicated parameters are not exchanged."),
    "gradients-partly-exchanged": RuleText("Gradients of some parameters are not exchanged."),
    "gradients-divided-twice": RuleText("Gradients are divided by the number of ranks twice."),
    "gradients-multiplied": RuleText("Exchanged gradients are a multiple of their mean."),
    "only-last-micro-batch": RuleText("Only the last micro-batch's gradients are exchanged."),
    "backward-passes-differ": RuleText("Ranks accumulate different numbers of micro-batches."),
    "accumulation-not-divided": RuleText(
        "Losses of micro-batches are added up, not averaged.", status="hypothesis"
    ),
    "same-batch-on-ranks": RuleText("Data-parallel ranks get the same batches."),
    "same-samples-on-ranks": RuleText(
        "Data-parallel ranks read the same samples, in different batches."
    ),
    "tensor-ranks-batches-differ": RuleText("Tensor-parallel ranks get different batches."),
    "random-states-differ": RuleText("Ranks of tensor parallelism use other random numbers."),
    "random-states-equal": RuleText("Shards of tensor parallelism use the same dropout mask."),
    "replicated-activations-differ": RuleText("An output that ranks have in common differs."),
    "replicated-gradient-not-reduced": RuleText("An all_reduce of a backward pass is missing."),
    "ops-differ": RuleText("Ranks run other ops in their forward pass."),
    "parameter-not-reduced": RuleText(
        "A gradient is in no reducing collective of a step, although others are."
    ),
    "gradient-reduced-twice": RuleText("A gradient is in several reducing collectives of a step."),
    "clip-norm-wrong": RuleText("Gradients are clipped by another norm than that over all ranks."),
    "clip-norms-differ": RuleText(
        "Clipping finds another norm on each rank, or gets another limit."
    ),
    "decisions-differ": RuleText(
        "Learning rates, skipped steps, modes, `requires_grad` or unused parameters differ."
    ),
    "non-finite-on-rank": RuleText("One rank made NaN or Inf, and others got them from it."),
    "first-non-finite": RuleText("The op of the rank that made the first NaN or Inf."),
    "loss-weighted-by-rank": RuleText("Each rank averages over its own number of targets."),
    "loss-not-of-all-targets": RuleText("The reported loss is a mean of means over ranks."),
    "odd-rank-out": RuleText(
        "One rank's loss, gradient or activations are far from those of the others."
    ),
    "environment-differs": RuleText("Versions, settings or arguments differ between ranks."),
    "collectives-differ": RuleText("Ranks call different collectives."),
    "collective-result-wrong": RuleText(
        "A rank has not got from a collective, or from another rank, what the ranks gave."
    ),
    "rank-stopped": RuleText("The process of a rank has ended while others have not."),
    "no-progress": RuleText("The ranks make no progress, and stand at these places."),
}
"""Of ``sonde run --check-ranks``, besides kinds of the diagnosis, and of ``check_ranks`` of
``sonde.train``; ``docs/ranks.md`` describes the check."""

_ADVICE: Final[Mapping[str, tuple[EvidenceStatus, str]]] = {
    "detached-graph": (
        "established",
        "look for detach(), no_grad() or .data between the weight and the loss",
    ),
    "unused-parameters": ("established", "call the module in forward, or remove it"),
    "zero-grad-before-step": (
        "established",
        "call zero_grad() before backward, or after the step",
    ),
    "half-gradient-underflow": (
        "established",
        "scale the loss (torch.amp.GradScaler), or use bfloat16",
    ),
    "low-precision-update-lost": (
        "established",
        "raise the learning rate, or keep the weight in float32",
    ),
    "optimizer-skips-noncontiguous": (
        "established",
        "the optimizer does not write to it: is the weight contiguous, does the optimizer skip it?",
    ),
    "weight-not-in-optimizer": (
        "established",
        "give it to the optimizer; was the optimizer made before the layer was replaced?",
    ),
    "vanishing-gradient": ("hypothesis", "check initialization, activations and normalization"),
    "exploding-gradient": ("hypothesis", "lower the learning rate or clip the gradients"),
}
"""Status and advice of kinds of the diagnosis where a check of one step reports them. One step
beyond a threshold does not decide."""


@cache
def kinds() -> dict[str, RuleText]:
    """Every kind that has a page in ``docs/rules``."""
    found: dict[str, RuleText] = {}
    for kind, rule in own_rules().items():
        what = inspect.getdoc(importlib.import_module(rule.judge.__module__)) or kind
        status, advice = _ADVICE.get(kind, ("established", ""))
        found[kind] = RuleText(" ".join(what.split("\n\n")[0].split()), advice, status)
    found["differs-from-reference"] = RuleText(
        "A setting differs from that of a reference training: `sonde diagnose --against DUMP`."
    )
    return {**found, **CHECKS, **CHECKPOINTS, **SPEED, **RANKS}


def clause(kind: str) -> str:
    """The sentence of a kind as the end of another one: ``no gradient reaches a weight``."""
    what = kinds()[kind].what.rstrip(".")
    return what[:1].lower() + what[1:]
