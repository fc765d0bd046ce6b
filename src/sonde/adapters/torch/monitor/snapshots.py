"""Copies of weights and optimizer state in host memory, from which the steps since are run again.

Some faults show when weights are already spoiled: the update before wrote NaN, or was too large. A
snapshot is the state at the end of a step. With the records of the steps since, and their updates,
the state before any of these updates can be computed again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.debugging.optimizers import parameters_of
from sonde.adapters.torch.replay.comparison import difference
from sonde.adapters.torch.replay.execution import execute, weight_versions
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.step_record import ModuleCall, OutsideOp, StepRecord
from sonde.core.interruption import start_thread

Groups = list[dict[str, Any]]


@dataclass(slots=True, eq=False)
class PastStep:
    """A step since the snapshot; ``groups`` are the settings of its optimizer for its update."""

    step: int
    record: StepRecord
    optimizer: torch.optim.Optimizer
    groups: Groups


@dataclass(slots=True, eq=False)
class _Snapshot:
    """Weights and optimizer states, on the host."""

    weights: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    states: list[tuple[torch.optim.Optimizer, list[tuple[Any, Any]]]] = field(default_factory=list)

    def fill(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """Copy; may run in a thread of its own while the weights are not written to."""
        with private.unobserved(), torch.no_grad():
            for optimizer in optimizers:
                for parameter in parameters_of(optimizer):
                    self.weights.append((parameter, _on_host(parameter.detach())))
                state = [(key, _copied(each, _on_host)) for key, each in optimizer.state.items()]
                self.states.append((optimizer, state))


class Snapshots:
    """The last snapshot and the steps since. Used from the training thread.

    A new snapshot is copied in a thread while the next forward and backward pass run, and replaces
    the old one when the next step was judged: a trigger in that step can still go back further.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._optimizers: list[torch.optim.Optimizer] = []
        self._base: _Snapshot | None = None
        self._next: _Snapshot | None = None
        self._copying: threading.Thread | None = None
        self._problem: Exception | None = None
        self.steps: list[PastStep] = []
        self.refusal = ""

    def refuse(self, reason: str) -> None:
        """Keep nothing from now on: a step cannot be run again, because of ``reason``."""
        self.close()
        self.refusal = reason
        self._base = self._next = None
        self.steps.clear()

    def before_update(
        self, step: int, optimizer: torch.optim.Optimizer, record: StepRecord
    ) -> None:
        """The step was judged, and ``optimizer`` is about to change the weights."""
        if self.refusal:
            return
        self._finish()
        if self._next is not None:
            self._base, self._next = self._next, None
            self.steps.clear()
        if not any(each is optimizer for each in self._optimizers):
            self._optimizers.append(optimizer)
            self._base = None
        if self._base is None:
            self.steps.clear()
            self._base = _Snapshot()
            self._base.fill(self._optimizers)
        _release(record)
        self.steps.append(PastStep(step, record, optimizer, _settings(optimizer)))

    def step_ended(self) -> None:
        """Begin to copy, if it is time."""
        if len(self.steps) < self._every or self._copying is not None or self._next is not None:
            return
        snapshot = _Snapshot()

        def copy() -> None:
            try:
                snapshot.fill(self._optimizers)
            except Exception as error:  # Raised in the training thread, where it is reported.
                self._problem = error

        self._next = snapshot
        self._copying = threading.Thread(target=copy, name="sonde-snapshot", daemon=True)
        start_thread(self._copying)

    def close(self) -> None:
        """Wait for the thread; its failure no longer matters."""
        if self._copying is not None:
            self._copying.join()
            self._copying = None

    def _finish(self) -> None:
        self.close()
        problem, self._problem = self._problem, None
        if problem is not None:
            self._next = None
            raise problem

    @contextmanager
    def past(self, recorder: StepRecorder) -> Iterator[Past | None]:
        """The training as it was at the snapshot; everything is restored when the block is left.
        None if there is no step to go back."""
        self._finish()
        if self._base is None or not self.steps:
            yield None
            return
        optimizers = [optimizer for optimizer, _ in self._base.states]
        parameters = [parameter for parameter, _ in self._base.weights]
        weights = [(each, each.data, private.version_of(each), each.grad) for each in parameters]
        states = [(each, each.state, _settings(each)) for each in optimizers]
        try:
            with recorder.replaying():
                yield Past(self._base, self.steps, [(each, data) for each, data, _, _ in weights])
        finally:
            for parameter, data, version, gradient in weights:
                parameter.data = data
                private.set_version(parameter, version)
                parameter.grad = gradient
            for optimizer, state, groups in states:
                optimizer.state = state
                _set_settings(optimizer, groups)


@dataclass(slots=True, eq=False)
class Past:
    """Runs the steps since a snapshot again, from the snapshot on."""

    _base: _Snapshot
    all: list[PastStep]
    _present: list[tuple[torch.Tensor, torch.Tensor]]

    def is_present(self) -> bool:
        """Whether the weights are those of the training, bit for bit."""
        with private.unobserved():
            return all(
                difference("parameter gradient", "", data, parameter.detach()) is None
                for parameter, data in self._present
            )

    def restart(self) -> None:
        """Set weights and optimizer states to those of the snapshot."""
        with private.unobserved(), torch.no_grad():
            for parameter, values in self._base.weights:
                parameter.data = values.to(parameter.device, copy=True)
            for optimizer, state in self._base.states:
                made: defaultdict[Any, Any] = defaultdict(dict)
                for key, each in state:
                    made[key] = _copied(each, _cloned_like(key))
                optimizer.state = made

    def prepare(self, past: PastStep) -> None:
        """Compute the gradients of a step and set its optimizer's settings of then."""
        for call in past.record.calls:
            call.weight_versions = weight_versions(call.module)
        done = execute(past.record)
        if done.error is not None:
            raise done.error
        for parameter in parameters_of(past.optimizer):
            leaf, gradient = done.gradients.get(id(parameter), (parameter, None))
            leaf.grad = gradient
        _set_settings(past.optimizer, past.groups)


def update(past: PastStep) -> None:
    """Make the update of a step, without hooks of the program or of Sonde."""
    step: Any = type(past.optimizer).step
    plain = step.__wrapped__ if getattr(step, "hooked", False) else step
    plain(past.optimizer)


def _release(record: StepRecord) -> None:
    """Let go of what the step computed: executing it again computes it anew."""
    with private.unobserved():
        empty = torch.empty(0)
        for event in record.events:
            made: Iterable[Any] = ()
            if isinstance(event, ModuleCall):
                made = [output.tensor for output in event.outputs]
            elif isinstance(event, OutsideOp):
                made = event.outputs
            for kept in made:
                if kept.leaf is None and kept.copy is None:
                    kept.alias, kept.version = empty, -1


def _settings(optimizer: torch.optim.Optimizer) -> Groups:
    """The settings of the groups, without the parameters."""
    return [
        {
            name: value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in group.items()
            if name != "params"
        }
        for group in optimizer.param_groups
    ]


def _set_settings(optimizer: torch.optim.Optimizer, groups: Groups) -> None:
    for group, settings in zip(optimizer.param_groups, groups, strict=False):
        group.update(settings)


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True)


def _cloned_like(key: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Copies to where the optimizer keeps its state: scalars stay on the host."""

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        is_beside = isinstance(key, torch.Tensor) and tensor.dim() > 0
        return tensor.to(key.device if is_beside else "cpu", copy=True)

    return copy


def _copied(tree: Any, copy: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(tree, torch.Tensor):
        return copy(tree)
    if isinstance(tree, Mapping):
        return {key: _copied(each, copy) for key, each in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_copied(each, copy) for each in tree)
    return tree
