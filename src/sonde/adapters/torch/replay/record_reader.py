"""Makes a record that can be executed again from the manifest of a captured step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.function_names import function_at
from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.step_record import (
    AutocastState,
    BackwardPass,
    Event,
    GradScaling,
    ModuleCall,
    ModuleState,
    Output,
    OutsideOp,
    PriorGradient,
    RandomStates,
    Reason,
    StepRecord,
)
from sonde.adapters.torch.replay.value_reader import ValueReader, find_class
from sonde.replay.errors import ReplayError
from sonde.replay.manifest import (
    Manifest,
    StoredAutocast,
    StoredBackward,
    StoredCall,
    StoredLine,
    StoredOp,
    StoredRandom,
)
from sonde.replay.stored_values import AnyStoredValue, KeptValue


class RecordedError(RuntimeError):
    """What the program raised in the captured step."""


@dataclass(slots=True)
class RecordReader:
    """Builds the record of one captured step."""

    manifest: Manifest
    tensors: Sequence[torch.Tensor]
    read_objects: Callable[[], list[Any]]
    modules: Sequence[nn.Module]
    where: str
    may_import: bool
    _live: dict[int, torch.Tensor] = field(default_factory=dict)
    _objects: list[Any] | None = None

    def record(self) -> StepRecord:
        manifest, tensors = self.manifest, self.tensors
        for module, stored in zip(self.modules, manifest.modules, strict=True):
            parameters = dict(module.named_parameters())
            for each in stored.parameters:
                parameter = parameters.get(each.name, tensors[each.index])
                self._live[each.index] = parameter
                parameter.grad = None if each.gradient is None else tensors[each.gradient]
        record = StepRecord(manifest.step, manifest.rank)
        for event in manifest.events:
            record.events.append(self._event(event, record))
        for prior in manifest.prior_gradients:
            parameter = self._live.get(prior.parameter, tensors[prior.parameter])
            values = None if prior.values is None else tensors[prior.values]
            record.prior_gradients[id(parameter)] = PriorGradient(parameter, values)
        record.unreplayable = [
            Reason(each.kind, each.subject, each.detail)  # type: ignore[arg-type]
            for each in manifest.unreplayable
        ]
        record.scaling = self._scaling()
        record.optimizer = self._optimizer()
        return record

    def _event(self, event: StoredCall | StoredOp | StoredBackward, record: StepRecord) -> Event:
        if isinstance(event, StoredCall):
            return self._call(event, len(record.calls))
        if isinstance(event, StoredOp):
            return self._op(event)
        return BackwardPass(
            number=len(record.backward_passes),
            roots=tuple(self._built(event.roots)),
            gradients=tuple(self._built(event.gradients)),
            keeps_graph=event.keeps_graph,
            makes_graph=event.makes_graph,
            inputs=None if event.inputs is None else tuple(self._built(event.inputs)),
            error=None if event.error is None else RecordedError(event.error),
        )

    def _call(self, stored: StoredCall, number: int) -> ModuleCall:
        tensors, module = self.tensors, self.modules[stored.module]
        state = ModuleState(
            buffers={name: tensors[index] for name, index in stored.buffers.items()},
            attributes={
                (each.module, each.name): self._built(each.value) for each in stored.attributes
            },
            training=tuple(stored.training),
        )
        outputs = [
            Output(
                path=tuple(self._built(each.path)),
                tensor=self._built(each.tensor),
                gradient=None if each.gradient is None else tensors[each.gradient],
                backward=each.backward,
            )
            for each in stored.outputs
        ]
        return ModuleCall(
            number=number,
            module=module,
            name=self.manifest.modules[stored.module].name,
            args=tuple(self._built(stored.args)),
            kwargs=dict(self._built(stored.kwargs)),
            random=self._random(stored.random),
            autocast=_autocast(stored.autocast),
            has_gradients=stored.has_gradients,
            state=state,
            weight_versions=sum(private.version_of(each) for each in module.parameters()),
            micro_batch=stored.micro_batch,
            outputs=outputs,
            error=None if stored.error is None else RecordedError(stored.error),
            is_compiled=stored.is_compiled,
        )

    def _op(self, stored: StoredOp) -> OutsideOp:
        return OutsideOp(
            function=self._function(stored),
            name=stored.name,
            args=tuple(self._built(stored.args)),
            kwargs=dict(self._built(stored.kwargs)),
            results=self._built(stored.results),
            line=None if stored.line is None else (_code_of(stored.line), 0),
            has_gradients=stored.has_gradients,
            autocast=_autocast(stored.autocast),
            random=None if stored.random is None else self._random(stored.random),
        )

    def _function(self, stored: StoredOp) -> Callable[..., Any]:
        kind, _, rest = stored.function.partition(":")
        found: Any = None
        if kind == "object" and rest.isdigit() and _is_in(int(rest), self.objects()):
            found = self.objects()[int(rest)]
        elif not rest:
            found = function_at(stored.function)
        if not callable(found):
            raise ReplayError(
                f"{self.where} cannot be executed again: torch {torch.__version__} has no "
                f"function {stored.function[:200]}",
                slug="code-missing",
            )
        return found  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ values

    def _built(self, value: AnyStoredValue) -> Any:
        reader = _RecordValues(self.tensors, self.objects, self.where, self.may_import)
        return reader.build(value)

    def objects(self) -> list[Any]:
        """The objects of the pickle, which is read only if one is needed."""
        if self._objects is None:
            self._objects = self.read_objects()
        return self._objects

    def _random(self, stored: StoredRandom) -> RandomStates:
        python = None if stored.python is None else self._built(stored.python)
        if isinstance(python, tuple) and len(python) == 3 and hasattr(python[1], "tolist"):
            python = (python[0], tuple(python[1].tolist()), python[2])
        return RandomStates(
            cpu=self.tensors[stored.cpu],
            python=python,
            numpy=None if stored.numpy is None else self._built(stored.numpy),
            devices={int(name): self.tensors[at] for name, at in stored.devices.items()},
        )

    def _scaling(self) -> GradScaling | None:
        stored = self.manifest.scaler
        if stored is None:
            return None
        scale = float(stored.scale)
        return GradScaling(torch.amp.GradScaler(stored.device, init_scale=scale), scale)

    def _optimizer(self) -> torch.optim.Optimizer | None:
        """The optimizer of the step with its settings; None if it cannot be built from them."""
        stored = self.manifest.optimizer
        if stored is None or not self.may_import:
            return None
        kind = find_class(stored.of, self.where)
        if not isinstance(kind, type) or not issubclass(kind, torch.optim.Optimizer):
            return None
        tensors = self.tensors
        positions: list[torch.Tensor] = []
        groups = []
        for group in stored.groups:
            parameters = [
                self._live.get(each, tensors[each]) for each in group.parameters if each is not None
            ]
            positions += parameters
            settings = {name: self._built(value) for name, value in group.settings.items()}
            groups.append({"params": parameters, **settings})
        try:
            optimizer = kind(groups)
        except Exception:  # a class of the user with other arguments: the step does not need it
            return None
        for position, values in (stored.state or {}).items():
            if position.isdigit() and int(position) < len(positions):
                optimizer.state[positions[int(position)]] = self._built(values)
        return optimizer


@dataclass(slots=True)
class _RecordValues(ValueReader):
    """Rebuilds values in which tensors are kept ones."""

    def build(self, value: AnyStoredValue) -> Any:
        if isinstance(value, KeptValue):
            tensor = self._at(self.tensors, value.index)
            return keep_loaded(tensor, value.key, value.requires_grad, value.is_leaf)
        return ValueReader.build(self, value)


def keep_loaded(
    tensor: torch.Tensor, key: int = 0, requires_grad: bool = False, is_leaf: bool = True
) -> KeptTensor:
    alias = tensor.detach()
    return KeptTensor(key, alias, private.version_of(alias), requires_grad, is_leaf)


def _is_in(index: int | None, objects: Sequence[Any]) -> bool:
    return index is not None and index < len(objects)


def _autocast(stored: Sequence[StoredAutocast]) -> tuple[AutocastState, ...]:
    found = []
    for each in stored:
        dtype = getattr(torch, each.dtype, None)
        if isinstance(dtype, torch.dtype):
            found.append(AutocastState(each.device, each.is_enabled, dtype, each.is_cached))
    return tuple(found)


def _code_of(stored: StoredLine) -> CodeType:
    """A code object that stands for a line of the program."""
    code: CodeType = (lambda: None).__code__
    return code.replace(
        co_filename=stored.file, co_name=stored.function, co_firstlineno=stored.line
    )
