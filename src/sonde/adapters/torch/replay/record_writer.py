"""Describes the record of a step as a manifest, and collects its tensors and objects."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec import structs

from sonde.adapters.torch.replay import environment
from sonde.adapters.torch.replay.function_names import function_name
from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.object_pickle import ObjectWriter, first_line, unpicklable_hooks
from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    ModuleCall,
    OutsideOp,
    RandomStates,
    StepRecord,
)
from sonde.adapters.torch.replay.stored_facts import (
    plain_fields,
    stored_autocast,
    stored_line,
    stored_scaler,
    stored_trigger,
)
from sonde.adapters.torch.replay.tensor_files import TensorWriter, is_storable
from sonde.adapters.torch.replay.value_writer import ValueWriter
from sonde.adapters.torch.replay.wrappers import unwrapped
from sonde.core.files.atomic_file import write_whole
from sonde.replay import layout
from sonde.replay.layout import TensorFile
from sonde.replay.manifest import (
    FORMAT,
    Manifest,
    StoredAttribute,
    StoredBackward,
    StoredCall,
    StoredEvent,
    StoredGroup,
    StoredModule,
    StoredOp,
    StoredOptimizer,
    StoredOutput,
    StoredParameter,
    StoredPrior,
    StoredRandom,
    StoredReason,
    encode_manifest,
)
from sonde.replay.stored_values import AnyStoredValue, KeptValue, MissingValue


@dataclass(slots=True)
class RecordWriter:
    """Builds the manifest of one record, and collects its tensors and objects."""

    record: StepRecord
    tensors: TensorWriter = field(default_factory=TensorWriter)
    _keys: dict[int, int] = field(default_factory=dict)
    _modules: dict[int, int] = field(default_factory=dict)
    _stored: list[StoredModule] = field(default_factory=list)
    _parameters: dict[int, int] = field(default_factory=dict)
    modules: ObjectWriter = field(init=False)
    objects: ObjectWriter = field(init=False)

    def __post_init__(self) -> None:
        self.modules = ObjectWriter(layout.MODULES, self.tensors, self._key)
        self.objects = ObjectWriter(layout.OBJECTS, self.tensors, self._key)

    def write(self, place: Path, trigger: Any, signals: Any, *, keeps_state: bool) -> None:
        """Write the files of the step into the directory ``place``."""
        manifest = self._manifest(trigger, signals, keeps_state)
        self.modules.write(place)
        self.objects.write(place)
        whole = structs.replace(manifest, tensors=self.tensors.write(place))
        write_whole(place / layout.MANIFEST, encode_manifest(whole))

    def _manifest(self, trigger: Any, signals: Any, keeps_state: bool) -> Manifest:
        record = self.record
        for call in record.calls:  # first: parameters are named before they occur elsewhere
            self._module(call)
        events = [self._event(event) for event in record.events]
        return Manifest(
            format=FORMAT,
            step=record.step,
            rank=record.rank,
            versions=environment.versions(),
            program=environment.program(),
            flags=environment.flags(),
            accumulation=len(record.backward_passes),
            trigger=None if trigger is None else stored_trigger(trigger),
            signals=plain_fields(signals),
            tensors=[],
            modules=self._stored,
            events=events,
            prior_gradients=[
                StoredPrior(
                    parameter=self._parameter(each.parameter),
                    values=self._tensor(each.values, "gradients", "prior"),
                )
                for each in record.prior_gradients.values()
            ],
            optimizer=self._optimizer(record.optimizer, keeps_state),
            scaler=stored_scaler(record),
            unreplayable=[
                StoredReason(kind=each.kind, subject=each.subject, detail=each.detail)
                for each in record.unreplayable
            ],
        )

    # ----------------------------------------------------------------- modules

    def _module(self, call: ModuleCall) -> int:
        known = self._modules.get(id(call.module))
        if known is not None:
            return known
        number = self._modules[id(call.module)] = len(self._stored)
        module, wrapper = unwrapped(call.module)
        parameters = []
        for name, parameter in module.named_parameters():
            if is_storable(parameter):
                index = self.tensors.add(parameter, "weights", name)
                self._parameters[id(parameter)] = index
                gradient = self._tensor(parameter.grad, "gradients", name)
                parameters.append(StoredParameter(name=name, index=index, gradient=gradient))
        buffers = {
            name: self.tensors.add(buffer, "buffers", name)
            for name, buffer in module.named_buffers()
            if is_storable(buffer)
        }
        kept = self.modules.keep(module)
        kind = type(module)
        stored = StoredModule(
            name=call.name,
            of=f"{kind.__module__}:{kind.__qualname__}",
            parameters=parameters,
            buffers=buffers,
            object=None if isinstance(kept, str) else kept,
            problem=kept if isinstance(kept, str) else "",
            is_compiled=call.is_compiled,
            wrapper=wrapper,
            dropped=unpicklable_hooks(module),
        )
        self._stored.append(stored)
        return number

    def _parameter(self, parameter: torch.Tensor) -> int:
        known = self._parameters.get(id(parameter))
        return self.tensors.add(parameter, "weights", "parameter") if known is None else known

    # ------------------------------------------------------------------ events

    def _event(self, event: ModuleCall | OutsideOp | BackwardPass) -> StoredEvent:
        if isinstance(event, ModuleCall):
            return self._call(event)
        if isinstance(event, OutsideOp):
            return self._op(event)
        return self._backward(event)

    def _call(self, call: ModuleCall) -> StoredCall:
        prefix = f"call_{call.number}"
        state = call.state
        return StoredCall(
            module=self._module(call),
            args=self._describe(call.args, f"{prefix}.args"),
            kwargs=self._describe(call.kwargs, f"{prefix}.kwargs"),
            random=self._random(call.random),
            autocast=stored_autocast(call.autocast),
            has_gradients=call.has_gradients,
            training=list(state.training),
            buffers={
                name: self.tensors.add(values, "buffers", f"{prefix}.{name}")
                for name, values in state.buffers.items()
            },
            attributes=[
                StoredAttribute(
                    module=module,
                    name=name,
                    value=self._describe(value, f"{prefix}.{module}.{name}"),
                )
                for (module, name), value in state.attributes.items()
            ],
            outputs=[
                StoredOutput(
                    path=self._describe(output.path, prefix),
                    tensor=self._describe(output.tensor, f"{prefix}.output_{number}", "results"),
                    gradient=self._tensor(
                        output.gradient, "gradients", f"{prefix}.output_{number}"
                    ),
                    backward=output.backward,
                )
                for number, output in enumerate(call.outputs)
            ],
            micro_batch=call.micro_batch,
            error=None if call.error is None else first_line(call.error),
            is_compiled=call.is_compiled,
        )

    def _op(self, op: OutsideOp) -> StoredOp:
        name = function_name(op.function)
        if name is None:
            kept = self.objects.keep(op.function)
            name = f"object:{kept}" if isinstance(kept, int) else f"missing:{kept}"
        return StoredOp(
            function=name,
            name=op.name,
            args=self._describe(op.args, op.name),
            kwargs=self._describe(op.kwargs, op.name),
            results=self._describe(op.results, f"{op.name}.result", "results"),
            has_gradients=op.has_gradients,
            autocast=stored_autocast(op.autocast),
            line=None if op.line is None else stored_line(*op.line),
            random=None if op.random is None else self._random(op.random),
        )

    def _backward(self, backward: BackwardPass) -> StoredBackward:
        prefix = f"backward_{backward.number}"
        return StoredBackward(
            roots=self._describe(backward.roots, f"{prefix}.root", "results"),
            gradients=self._describe(backward.gradients, f"{prefix}.gradient", "gradients"),
            keeps_graph=backward.keeps_graph,
            makes_graph=backward.makes_graph,
            inputs=None
            if backward.inputs is None
            else self._describe(backward.inputs, f"{prefix}.input"),
            error=None if backward.error is None else first_line(backward.error),
        )

    # ------------------------------------------------------------------ values

    def _describe(self, value: Any, name: str, file: TensorFile = "inputs") -> AnyStoredValue:
        return _RecordValues(self.tensors, self.objects.keep, file, key=self._key).describe(
            value, name
        )

    def _tensor(self, tensor: torch.Tensor | None, file: TensorFile, name: str) -> int | None:
        if tensor is None or not is_storable(tensor):
            return None
        return self.tensors.add(tensor, file, name)

    def _key(self, kept: KeptTensor) -> int:
        return self._keys.setdefault(kept.key, len(self._keys))

    def _random(self, states: RandomStates) -> StoredRandom:
        python = states.python
        if _is_python_state(python):
            python = (python[0], np.array(python[1], np.int64), python[2])
        return StoredRandom(
            cpu=self.tensors.add(states.cpu, "random", "cpu"),
            python=None if python is None else self._describe(python, "python", "random"),
            numpy=None if states.numpy is None else self._describe(states.numpy, "numpy", "random"),
            devices={
                str(number): self.tensors.add(state, "random", f"device_{number}")
                for number, state in states.devices.items()
            },
        )

    def _optimizer(
        self, optimizer: torch.optim.Optimizer | None, keeps_state: bool
    ) -> StoredOptimizer | None:
        kind = type(optimizer)
        if optimizer is None or "<" in kind.__qualname__:
            return None
        groups, state = [], {}
        position = 0
        for group in optimizer.param_groups:
            parameters: list[int | None] = []
            for parameter in group["params"]:
                parameters.append(self._parameter(parameter) if is_storable(parameter) else None)
                if keeps_state and parameter in optimizer.state:
                    kept = dict(optimizer.state[parameter])
                    name = f"state_{position}"
                    state[str(position)] = self._describe(kept, name, "optimizer")
                position += 1
            settings = {
                name: self._describe(value, name, "optimizer")
                for name, value in group.items()
                if name != "params"
            }
            groups.append(StoredGroup(parameters=parameters, settings=settings))
        path = f"{kind.__module__}:{kind.__qualname__}"
        return StoredOptimizer(of=path, groups=groups, state=state if keeps_state else None)


@dataclass(slots=True)
class _RecordValues(ValueWriter):
    """Describes values in which tensors are kept ones."""

    key: Callable[[KeptTensor], int] = field(kw_only=True, default=lambda kept: kept.key)

    def describe(self, value: Any, name: str, depth: int = 0) -> AnyStoredValue:
        if isinstance(value, KeptTensor):
            if not is_storable(value.values):
                return MissingValue(_kind(value.values), "it is not a dense tensor")
            index = self.tensors.add(value.values, self.file, name)
            return KeptValue(index, self.key(value), value.requires_grad, value.is_leaf)
        return ValueWriter.describe(self, value, name, depth)


def _kind(tensor: torch.Tensor) -> str:
    return f"{type(tensor).__module__}:{type(tensor).__qualname__} ({tensor.layout})"


def _is_python_state(state: Any) -> bool:
    return (
        isinstance(state, tuple) and len(state) == 3 and len(state[1]) == len(random.getstate()[1])
    )
