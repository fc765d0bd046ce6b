"""Makes a record that can be executed again from the manifest of a captured step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import msgspec
import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.module_state import Frozen
from sonde.adapters.torch.replay.step_record import (
    AutocastState,
    AveragedGradient,
    BackwardPass,
    CallOutput,
    Event,
    GradScaling,
    ModuleCall,
    ModuleState,
    OutsideOp,
    PriorGradient,
    RandomStates,
    ReplayProblem,
    StepRecord,
)
from sonde.adapters.torch.replay.storage.function_names import function_at
from sonde.adapters.torch.replay.storage.optimizer_reader import built_optimizer
from sonde.adapters.torch.replay.storage.value_reader import ValueReader
from sonde.adapters.torch.replay.storage.wrappers import COMPILED, outer_name, unwrapped
from sonde.replay.errors import ReplayError
from sonde.replay.manifest import (
    CapturedOp,
    Manifest,
    StoredAutocast,
    StoredBackward,
    StoredCall,
    StoredLine,
    StoredRandom,
)
from sonde.replay.stored_values import AnyStoredValue, KeptValue

_OTHER_VERSION = -2
"""A count of writes that no tensor has: the values are not those of the step."""


class RecordedError(RuntimeError):
    """What the program raised in the captured step."""


@dataclass(slots=True)
class RecordReader:
    """Builds the record of one captured step."""

    manifest: Manifest
    tensors: Sequence[torch.Tensor]
    read_objects: Callable[[Callable[[Any], KeptTensor]], list[Any]]
    modules: Sequence[nn.Module]
    where: str
    may_import: bool
    _live: dict[int, torch.Tensor] = field(default_factory=dict)
    _objects: list[Any] | None = None
    _by_key: dict[int, KeptTensor] = field(default_factory=dict)
    _memories: dict[int | None, torch.Tensor] = field(default_factory=dict)

    def record(self) -> StepRecord:
        manifest, tensors = self.manifest, self.tensors
        record = StepRecord(manifest.step, manifest.rank, averaged_over=manifest.averaged_over)
        for module, stored in zip(self.modules, manifest.modules, strict=True):
            parameters = dict(unwrapped(module)[0].named_parameters())
            for each in stored.parameters:
                parameter = parameters.get(each.name, tensors[each.index])
                self._live[each.index] = parameter
                parameter.grad = None if each.gradient is None else self._built(each.gradient)
                if record.averaged_over > 1:
                    own = None if each.own_gradient is None else self._built(each.own_gradient)
                    record.averaged[id(parameter)] = AveragedGradient(own, parameter.grad)
        for event in manifest.events:
            record.events.append(self._event(event, record))
        called = {each.module for each in manifest.events if isinstance(each, StoredCall)}
        record.owners = {
            stored.name: self.modules[number]
            for number, stored in enumerate(manifest.modules)
            if number not in called
        }
        for prior in manifest.prior_gradients:
            parameter = self._parameter(prior.parameter)
            values = None if prior.values is None else tensors[prior.values]
            record.prior_gradients[id(parameter)] = PriorGradient(parameter, values)
        record.unreplayable = [
            ReplayProblem(each.kind, each.subject, each.detail)  # type: ignore[arg-type]
            for each in manifest.unreplayable
        ]
        record.scaling = self._scaling()
        record.optimizer = self._optimizer()
        optimizer = manifest.optimizer
        record.has_optimizer_state = optimizer is not None and optimizer.state is not None
        return record

    def _event(self, event: StoredCall | CapturedOp | StoredBackward, record: StepRecord) -> Event:
        if isinstance(event, StoredCall):
            return self._call(event, len(record.calls))
        if isinstance(event, CapturedOp):
            return self._op(event)
        return BackwardPass(
            number=len(record.backward_passes),
            is_connected=event.is_connected,
            parameter_gradients=[
                (self._parameter(each.parameter), self._built(each.gradient))
                for each in event.parameter_gradients
            ],
            autocast=_autocast(event.autocast),
            roots=_only_kept(self._built(event.roots)),
            gradients=_only_kept(self._built(event.gradients)),
            keeps_graph=event.keeps_graph,
            makes_graph=event.makes_graph,
            inputs=None if event.inputs is None else _only_kept(self._built(event.inputs)),
            error=None if event.error is None else RecordedError(event.error),
        )

    def _parameter(self, index: int) -> torch.Tensor:
        """The parameter of the network that the tensor ``index`` is."""
        return self._live.get(index, self.tensors[index])

    def _state(self, stored: StoredCall, module: nn.Module) -> ModuleState:
        modules = dict(module.named_modules())
        attributes: dict[tuple[str, str], Any] = {}
        for each in stored.attributes:
            name, value = outer_name(each.module, module), self._built(each.value)
            owner = vars(modules[name]) if name in modules else {}
            if each.is_contents:
                value = Frozen(owner.get(each.name, value), value)
            attributes[name, each.name] = value
        _, wrappers = unwrapped(module)
        return ModuleState(
            buffers={
                (outer_name(each.module, module), each.name): self.tensors[each.index]
                for each in stored.buffers
            },
            attributes=attributes,
            training=(*stored.training[:1] * len(wrappers), *stored.training),
            requires_grad=tuple(stored.requires_grad),
        )

    def _call(self, stored: StoredCall, number: int) -> ModuleCall:
        tensors, module = self.tensors, self.modules[stored.module]
        outputs = [
            CallOutput(
                path=tuple(self._built(each.path)),
                tensor=_only_kept([self._built(each.tensor)])[0],
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
            state=self._state(stored, module),
            weight_versions=sum(private.version_of(each) for each in module.parameters()),
            micro_batch=stored.micro_batch,
            line=None if stored.line is None else (_code_of(stored.line), stored.line.line),
            outputs=outputs,
            error=None if stored.error is None else RecordedError(stored.error),
            is_compiled=COMPILED in unwrapped(module)[1],
            age=stored.age,
        )

    def _op(self, stored: CapturedOp) -> OutsideOp:
        return OutsideOp(
            function=self._function(stored),
            name=stored.name,
            args=tuple(self._built(stored.args)),
            kwargs=dict(self._built(stored.kwargs)),
            results=self._built(stored.results),
            line=None if stored.line is None else (_code_of(stored.line), stored.line.line),
            has_gradients=stored.has_gradients,
            autocast=_autocast(stored.autocast),
            random=None if stored.random is None else self._random(stored.random),
            written=tuple(
                (self._built(before), self._built(after)) for before, after in stored.written
            ),
            error=None if stored.error is None else RecordedError(stored.error),
        )

    def _function(self, stored: CapturedOp) -> Callable[..., Any]:
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
        reader = _RecordValues(
            self.tensors, self.objects, self.where, self.may_import, keep=self._kept
        )
        return reader.build(value)

    def _kept(self, value: KeptValue) -> KeptTensor:
        """The kept tensor of a key: the same key is the same object."""
        known = self._by_key.get(value.key)
        if known is not None:
            return known
        for index in (value.index, value.leaf):
            if index is not None and index >= len(self.tensors):
                raise ReplayError(
                    f"{self.where} is damaged: there is no tensor {index}", slug="step-damaged"
                )
        leaf = None if value.leaf is None else self._parameter(value.leaf)
        if value.index is not None:
            stored = self.tensors[value.index]
            alias = stored.detach() if leaf is None or leaf.requires_grad else leaf
            self._memories.setdefault(value.memory, alias)
        else:
            # Values that were not stored are not to be used: a meta tensor has none.
            empty = torch.empty(0, device="meta")
            alias = self._memories.setdefault(value.memory, empty).detach()
        is_current = value.index is not None and value.is_known
        version = private.version_of(alias) if is_current else _OTHER_VERSION
        earlier = None if value.earlier is None else self._by_key.get(value.earlier)
        kept = KeptTensor(value.key, alias, version, value.requires_grad, leaf, earlier=earlier)
        self._by_key[value.key] = kept
        return kept

    def objects(self) -> list[Any]:
        """The objects of the pickle, which is read only if one is needed."""
        if self._objects is None:
            self._objects = self.read_objects(
                lambda plain: self._kept(msgspec.convert(plain, KeptValue))
            )
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
        stored = self.manifest.optimizer
        if stored is None or not self.may_import:
            return None
        return built_optimizer(stored, self._parameter, self._built, where=self.where)


@dataclass(slots=True)
class _RecordValues(ValueReader):
    """Rebuilds values in which tensors are kept ones, which ``keep`` rebuilds."""

    keep: Callable[[KeptValue], KeptTensor] = field(kw_only=True)

    def build(self, value: AnyStoredValue) -> Any:
        if isinstance(value, KeptValue):
            return self.keep(value)
        return ValueReader.build(self, value)


def _only_kept(values: Any) -> tuple[Any, ...]:
    """``values`` as a tuple of kept tensors, or None where there is none."""
    for each in values:
        if each is not None and not isinstance(each, KeptTensor):
            raise ValueError(f"a {type(each).__name__} in place of a tensor")
    return tuple(values)


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
