"""``--set NAME=VALUE``: executes a step with another setting of its optimizer or of a module."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.averaged_gradients import averages, gradients_for_optimizer
from sonde.adapters.torch.replay.execution import execute
from sonde.adapters.torch.replay.questions.changed_records import without_spoiled_clipping
from sonde.adapters.torch.replay.questions.step_replay import StepReplay, check_ran
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.core.errors import UsageError
from sonde.core.finding import EvidenceStatus, Finding
from sonde.core.settings import nearest
from sonde.core.text.number_text import number_text
from sonde.replay.judgement import still_fires, unjudged_reason

_PLAIN = (bool, int, float, str, tuple, type(None))


@dataclass(frozen=True, slots=True)
class Setting:
    """A name as the user wrote it, and a value; ``owner`` is a module, None for the optimizer."""

    name: str
    value: Any
    owner: nn.Module | None

    @property
    def attribute(self) -> str:
        return self.name.rpartition(".")[2]


def with_settings(replaying: StepReplay, texts: Sequence[str]) -> Finding:
    """Does the trigger fire with these settings? With settings of the optimizer, its update is
    computed, too, and the weights after it are judged."""
    record = without_spoiled_clipping(replaying.record())
    settings = [_parsed(text, record) for text in texts]
    changed = [each for each in settings if each.owner is not None]
    before = [(each, getattr(each.owner, each.attribute)) for each in changed]
    try:
        for each in changed:
            setattr(each.owner, each.attribute, each.value)
        done = execute(record)
    finally:
        for each, value in before:
            setattr(each.owner, each.attribute, value)
    check_ran(done, replaying.step)
    fires, outcome = replaying.fires(record, done)
    words = ", ".join(texts)
    status: EvidenceStatus = "established"
    update = ""
    of_optimizer = [each for each in settings if each.owner is None]
    evidence: dict[str, object] = {"settings": list(texts)}
    if of_optimizer:
        gradients = {key: each for key, (_, each) in gradients_for_optimizer(record, done).items()}
        if record.averaged_over > 1 and not changed:
            gradients = averages(record)
        ratio, bad = _updated(record, gradients, of_optimizer)
        outcome = replace(outcome, non_finite_weights=bad)
        fires = still_fires(replaying.step.manifest, outcome, replaying.step.path)
        stored = replaying.step.manifest.optimizer
        update = f"; the update is {number_text(ratio)} of the weights"
        evidence["update_ratio"] = ratio
        if stored is not None and stored.state is None and _needs_state(record.optimizer):
            status = "hypothesis"
            update += ", computed without the optimizer's state, which was not kept"
    happens = "it happens, too" if fires else "it does not happen"
    if fires is None:
        reason = unjudged_reason(replaying.step.manifest, outcome)
        happens = f"it cannot be judged whether it happens: {reason}"
    evidence["fires"] = fires
    return Finding(
        "replay-set",
        "error" if fires else "info",
        f"with {words} {happens} ({outcome.text()}){update}",
        status=status,
        evidence=evidence,
    )


def _parsed(text: str, record: StepRecord) -> Setting:
    name, separator, value_text = text.partition("=")
    name = name.strip()
    if not separator or not name:
        raise UsageError(f"--set {text!r} is not NAME=VALUE", slug="usage")
    try:
        value = ast.literal_eval(value_text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise UsageError(
            f"--set {text}: the value must be a number, a text in quotes, True, False, None or a "
            "tuple",
            slug="usage",
        ) from None
    optimizer = record.optimizer
    known = set() if optimizer is None else set(optimizer.param_groups[0]) - {"params"}
    if name in known:
        return Setting(name, value, None)
    for call in record.calls:
        owner = _owner(call.module, name)
        if owner is not None:
            return Setting(name, value, owner)
    plain = {
        f"{path}.{key}" if path else key
        for call in record.calls
        for path, module in call.module.named_modules()
        for key, each in vars(module).items()
        if isinstance(each, _PLAIN) and not key.startswith("_") and key != "training"
    }
    hint = nearest(name, sorted(known | plain))
    raise UsageError(
        f"--set {text}: {name!r} is neither a setting of the optimizer "
        f"({', '.join(sorted(known)) or 'it cannot be rebuilt'}) nor an attribute of a module"
        f"{hint}",
        slug="replay-setting",
    )


def _owner(module: nn.Module, name: str) -> nn.Module | None:
    """The submodule with the plain attribute that ``name`` leads to."""
    path, _, attribute = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        return None
    return owner if isinstance(vars(owner).get(attribute, owner), _PLAIN) else None


def _updated(
    record: StepRecord,
    gradients: Mapping[int, torch.Tensor | None],
    settings: Sequence[Setting],
) -> tuple[float, int]:
    """The norm of the optimizer's update by that of the weights, and how many weights are not
    finite after it. The weights are afterwards as they were."""
    optimizer = record.optimizer
    assert optimizer is not None
    for group in optimizer.param_groups:
        group.update({each.name: each.value for each in settings})
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    with private.unobserved(), torch.no_grad():
        weights = [each.detach().clone() for each in parameters]
        kept = [each.grad for each in parameters]
        try:
            for parameter in parameters:
                parameter.grad = gradients.get(id(parameter))
            with torch.enable_grad():
                optimizer.step()
            update = sum(
                float((now.detach().double() - before.double()).norm()) ** 2
                for now, before in zip(parameters, weights, strict=True)
            )
            bad = sum(int((~torch.isfinite(each)).sum()) for each in parameters)
        except (RuntimeError, TypeError, ValueError, KeyError) as error:
            raise UsageError(
                f"--set: the optimizer cannot step: {type(error).__name__}: {error}",
                slug="replay-setting",
            ) from None
        finally:
            for parameter, values, gradient in zip(parameters, weights, kept, strict=True):
                parameter.copy_(values)
                parameter.grad = gradient
        norm = sum(float(each.double().norm()) ** 2 for each in weights)
    return (update / norm) ** 0.5 if norm else float("nan"), bad


def _needs_state(optimizer: torch.optim.Optimizer | None) -> bool:
    """Whether an optimizer keeps something from step to step; a plain SGD does not."""
    if optimizer is None:
        return False
    is_plain_sgd = isinstance(optimizer, torch.optim.SGD) and not any(
        group["momentum"] for group in optimizer.param_groups
    )
    return not is_plain_sgd
