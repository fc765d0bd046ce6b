"""The tensors that a rank describes to the server: finds, names and hashes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from msgspec.structs import replace
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.debugging.optimizers import parameters_of
from sonde.adapters.torch.debugging.signals.norms import norms
from sonde.adapters.torch.ranks.buffers import DescribedBuffers
from sonde.adapters.torch.ranks.copies import FollowedCopies
from sonde.adapters.torch.ranks.digests import is_constant, plain, project, tensor_digest
from sonde.adapters.torch.ranks.gradients.local_gradients import LocalGradient, LocalGradients
from sonde.adapters.torch.ranks.gradients.reduced_gradients import ReducedGradients
from sonde.adapters.torch.ranks.layout import TensorPlacements, outermost
from sonde.adapters.torch.ranks.private import offset_of_rows, unsharded_parameters
from sonde.adapters.torch.ranks.running_step import RunningStep
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable
from sonde.ranks.placement_file import DeclaredPlacements
from sonde.ranks.report import RankGradient, RankReport, StepReport


class DescribedTensors:
    """Follows optimizers and modules; ``send`` takes the description of this rank whenever there
    are new tensors. Used from the training thread."""

    def __init__(
        self,
        send: Callable[[RankReport], None],
        shield: Any,
        declared: DeclaredPlacements | None,
    ) -> None:
        self._send = send
        self._shield = shield
        self.layout = TensorPlacements(declared=declared)
        self.modules: WeakTable[nn.Module, str] = WeakTable()
        self._optimizers: WeakTable[torch.optim.Optimizer, None] = WeakTable()
        self._made: WeakTable[torch.optim.Optimizer, None] = WeakTable()
        self._local: LocalGradients | None = None
        self._is_wanted: Callable[[], bool] = lambda: False
        self.buffers = DescribedBuffers(
            self.layout, self.modules, lambda: self._is_wanted(), shield
        )
        self.copies = FollowedCopies(self.layout, shield)
        self.reduced = ReducedGradients()
        self._left: dict[int, torch.Tensor] = {}
        self._world_size = 1

    def install(self, is_wanted: Callable[[], bool], undo: ExitStack) -> None:
        self._is_wanted = is_wanted
        self.buffers.install(undo)
        self.copies.install(undo)
        self._local = LocalGradients(is_wanted, self._shield, undo)
        patch = wrap(torch.optim.Optimizer, "add_param_group", self._adding, undo)
        private.hide_from_compiler(patch.replacement)

    def begin(self, rank: int, world_size: int) -> None:
        self.layout.rank, self._world_size = rank, world_size

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        return list(self._optimizers)

    def add_optimizer(self, optimizer: torch.optim.Optimizer, source: str) -> list[torch.Tensor]:
        """An optimizer begins its step: learn its parameters if they are new; its parameters."""
        self._made[optimizer] = None
        parameters = list(parameters_of(optimizer))
        if optimizer not in self._optimizers:
            self._optimizers[optimizer] = None
            if self._local is not None:
                self._local.follow(parameters)
        self.learn(parameters, source)
        return parameters

    def learn(self, parameters: Sequence[torch.Tensor], source: str) -> None:
        """Describe this rank when there are parameters that it has not described."""
        is_known = all(self.layout.of(each) is not None for each in parameters)
        if is_known and not self.copies.has_new:
            return
        parameters = self._of_optimizers(parameters)
        modules = outermost({each: self.modules.get(each) or "" for each in list(self.modules)})
        rank = self.layout.rank
        with private.unobserved(), torch.no_grad():
            self.layout.learn(modules, parameters)
            self.copies.learn(modules)
            self.buffers.learn()
            self._send(self.layout.description(rank, self._world_size))
            known = self._tensors()
            constants = [n for n, each in enumerate(known) if each is None or is_constant(each)]
            digests = self._digests(self.buffers.initial())
            self._send(StepReport(rank, -1, digests, tuple(constants), source=source))

    def _of_optimizers(self, parameters: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """All parameters of the optimizers that have one of ``parameters``, which may be a part of
        them, as where each layer is clipped by itself; these if no optimizer has them."""
        numbers = {private.tensor_id(each) for each in parameters}
        found: dict[int, torch.Tensor] = {}
        for optimizer in self._made:
            own = {private.tensor_id(each): each for each in parameters_of(optimizer)}
            if not numbers.isdisjoint(own):
                found |= own
        return list(found.values()) if numbers <= found.keys() else parameters

    def digests(self) -> tuple[int, ...]:
        """The hashes of all described tensors as they are now."""
        with private.unobserved(), torch.no_grad():
            new = [self.layout.learn_states(each) for each in self.optimizers]
            if any(new):
                self._send(self.layout.description(self.layout.rank, self._world_size))
            return self._digests(self.buffers.current())

    def replicas(self) -> list[torch.Tensor | None]:
        """The replicated parameters in the order of the description; None for one that is gone."""
        alive = {
            private.tensor_id(each): each
            for optimizer in self.optimizers
            for each in parameters_of(optimizer)
        }
        return [alive.get(number) for number in self.layout.replicas]

    def _digests(self, buffers: Mapping[str, int]) -> tuple[int, ...]:
        named = {"buffer": buffers, "copy": self.copies.current()}
        return tuple(
            named[described.kind].get(described.name, 0)
            if described.kind in named
            else 0
            if tensor is None
            else tensor_digest(tensor)
            for described, tensor in zip(self.layout.named.values(), self._tensors(), strict=True)
        )

    def backward_begins(self) -> None:
        """A backward pass of a compared step begins: follow what FSDP2 has gathered by now."""
        if self._local is None:
            return
        for module in list(self.modules):
            for sharded, whole in unsharded_parameters(module):
                self._local.follow_whole(sharded, whole)

    def backward_left(self) -> None:
        """A backward pass of a compared step has ended: keep the projections of what it has left,
        which DDP and FSDP have exchanged by now."""
        with private.unobserved(), torch.no_grad():
            for optimizer in self.optimizers:
                for parameter in parameters_of(optimizer):
                    values = None if parameter.grad is None else plain(parameter.grad)
                    if values is not None and values.is_floating_point():
                        offset = self._offset(parameter) or 0
                        self._left[private.tensor_id(parameter)] = project(values, offset)

    def measure(self, parameters: Sequence[torch.Tensor], step: RunningStep) -> None:
        """Hash and project the gradients that the optimizer uses, each parameter once a step."""
        assert self._local is not None
        with private.unobserved(), torch.no_grad():
            counts = self.reduced.counts(parameters)
            for parameter, count in zip(parameters, counts, strict=True):
                known = self.layout.of(parameter)
                if known is None or known.name in step.gradients:
                    continue
                if parameter.grad is None:
                    if not known.is_inferred:
                        step.without.append(known.name)
                    continue
                if _is_partial(parameter.grad):
                    continue  # The optimizer's ops add up the parts of the ranks.
                left = self._left.get(private.tensor_id(parameter))
                local = self._local.of(parameter)
                offset = self._offset(parameter)
                report = _gradient(known.name, parameter.grad, local, left, offset)
                if report is not None:
                    step.gradients[known.name] = replace(report, reductions=count)

    def _offset(self, parameter: torch.Tensor) -> int | None:
        """The place of this rank's rows in a parameter that FSDP2 has divided; None: not divided,
        or in another way."""
        is_whole = self._local is not None and self._local.is_of_whole(parameter)
        return offset_of_rows(parameter) if is_whole else None

    def squares(self, parameters: Sequence[torch.Tensor]) -> dict[str, float]:
        """The sum of the squares of gradients by the group that shards them, empty name: none;
        empty if the placement of one is inferred, or over several groups, or if ranks have parts of
        one that are not added up."""
        found: dict[str, float] = {}
        for parameter, norm in zip(
            parameters, norms([each.grad for each in parameters]), strict=True
        ):
            known = self.layout.of(parameter)
            if known is None or known.is_inferred:
                return {}
            groups = [each.group for each in known.placements if each.kind != "replicated"]
            if len(groups) > 1 or _is_partial(parameter.grad):
                return {}
            if parameter.grad is not None:
                group = groups[0] if groups else ""
                found[group] = found.get(group, 0.0) + float(norm) ** 2
        return found

    def step_ended(self) -> None:
        self.buffers.step_ended()
        self.reduced.step_ended()
        self._left.clear()
        if self._local is not None:
            self._local.clear()

    def _adding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def add_param_group(optimizer: Any, group: Any) -> Any:
            result = original(optimizer, group)
            with self._shield:
                self._made[optimizer] = None
                if self._local is not None:
                    self._local.follow(list(parameters_of(optimizer)))
            return result

        return add_param_group

    def _tensors(self) -> list[torch.Tensor | None]:
        """The described tensors, in their order; None for one that is gone."""
        alive: dict[tuple[int, str], torch.Tensor] = {}
        for optimizer in self.optimizers:
            for parameter in parameters_of(optimizer):
                key = private.tensor_id(parameter)
                alive[key, ""] = parameter
                for name, value in optimizer.state.get(parameter, {}).items():
                    if isinstance(value, torch.Tensor):
                        alive[key, str(name)] = value
        return [alive.get(key) for key in self.layout.named]


def _is_partial(gradient: torch.Tensor | None) -> bool:
    """Whether each rank has a part of a sum, as DTensors say it."""
    return any(each.is_partial() for each in getattr(gradient, "placements", ()))


def _gradient(
    name: str,
    gradient: torch.Tensor,
    local: LocalGradient | None,
    left: torch.Tensor | None,
    offset: int | None,
) -> RankGradient | None:
    """``offset``: of the first element in that of the whole parameter, which was computed."""
    values = plain(gradient)
    if values is None or not values.is_floating_point():
        return None
    used = tuple(project(values, offset or 0).tolist())
    before = () if left is None else tuple(left.tolist())
    total: tuple[float, ...] = ()
    last: tuple[float, ...] = ()
    if local is not None and local.total is not None and local.last is not None:
        total, last = tuple(local.total.tolist()), tuple(local.last.tolist())
    return RankGradient(
        name,
        tensor_digest(values),
        0 if local is None else local.digest,
        used,
        total,
        last,
        is_finite=all(map(math.isfinite, used)),
        is_local_finite=all(map(math.isfinite, total)),
        left=before if before != used and all(map(math.isfinite, before)) else (),
        is_shard=offset is not None,
    )
