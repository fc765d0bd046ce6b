"""Tells the user about evaluations that are not observed, and about NaN in their results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.naming.source_lines import find_user_frame, stack_of
from sonde.adapters.torch.eager.naming.wrappers import class_name
from sonde.adapters.torch.eager.op_schema import tensors_in
from sonde.core.graph import shown_source
from sonde.core.running_training import step_text

_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass(slots=True, eq=False)
class EvaluationReport:
    """Reports that evaluations are not observed, and the first NaN that a network returns in one.

    ``notify`` prints a line, given its text and slug. The results are checked on their device; the
    answers are read by `report_nan`, once per step. Used from the training thread only.
    """

    notify: Callable[..., None]
    _is_told: bool = False
    _is_nan_told: bool = False
    _found: list[tuple[str, torch.Tensor]] = field(default_factory=list)

    def network_ran(self, network: nn.Module, result: Any, step: int) -> None:
        """Note that a network ran in an evaluation before or in step ``step``."""
        if private.is_tracing() or torch.is_grad_enabled():
            return
        name = class_name(network)
        if not self._is_told:
            self._is_told = True
            self.notify(
                f"evaluations are not observed and belong to no step: {name} ran in eval mode "
                f"without gradients before {step_text(step)}{_place()}; --observe evaluation adds "
                "the ops of evaluations to the steps",
                slug="evaluation-not-observed",
            )
        if self._is_nan_told:
            return
        with private.unobserved(), torch.no_grad():
            checks = [torch.isnan(each).any() for each in tensors_of(result) if _is_checked(each)]
            if not checks:
                return
            where = f"{name} in an evaluation before {step_text(step)}{_place()}"
            if self._found and self._found[-1][0] == where:
                checks.append(self._found.pop()[1])
            flag = checks[0]
            for check in checks[1:]:
                flag = flag | check.to(flag.device)
            self._found.append((where, flag))

    def report_nan(self) -> None:
        """Report the first NaN since the last call."""
        found, self._found = self._found, []
        with private.unobserved():
            where = next((where for where, flag in found if bool(flag)), None)
        if where is not None and not self._is_nan_told:
            self._is_nan_told = True
            self.notify(
                f"NaN in the output of {where}, whose ops are not observed; --observe evaluation "
                "shows the op that made it",
                slug="evaluation-nan",
            )


def tensors_of(result: Any) -> Iterator[torch.Tensor]:
    """The tensors that a network returned, alone, in a list or a mapping."""
    if isinstance(result, Mapping):
        result = tuple(result.values())
    return tensors_in(result)


def _is_checked(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and tensor.is_floating_point()
        and tensor.element_size() > 1
        and tensor.device.type != "meta"
        and not tensor.is_nested
    )


def _place() -> str:
    """The user's own line that runs the network, as it is shown of an op."""
    _, frame = find_user_frame(sys._getframe(1))
    source = shown_source(stack_of(frame))
    return "" if source is None else f" ({source})"
