"""Describes the record of a step as a manifest, and collects its tensors and objects."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec import structs, to_builtins

from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.module_state import Frozen
from sonde.adapters.torch.replay.needed_ops import needed_events, used_by_ops
from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    CallOutput,
    Event,
    ModuleCall,
    OutsideOp,
    RandomStates,
    StepRecord,
)
from sonde.adapters.torch.replay.storage import environment
from sonde.adapters.torch.replay.storage.function_names import function_name
from sonde.adapters.torch.replay.storage.object_pickle import (
    ObjectWriter,
    first_line,
    unpicklable_hooks,
)
from sonde.adapters.torch.replay.storage.stored_facts import (
    plain_fields,
    stored_autocast,
    stored_line,
    stored_scaler,
    stored_trigger,
)
from sonde.adapters.torch.replay.storage.tensor_files import TensorWriter, is_storable
from sonde.adapters.torch.replay.storage.value_writer import ValueWriter
from sonde.adapters.torch.replay.storage.wrappers import COMPILED, inner_name, unwrapped
from sonde.core.files.atomic_file import write_whole
from sonde.replay import layout
from sonde.replay.layout import TensorFile
from sonde.replay.manifest import (
    FORMAT,
    CapturedOp,
    Manifest,
    StoredAttribute,
    StoredBackward,
    StoredBuffer,
    StoredCall,
    StoredEvent,
    StoredGradient,
    StoredGroup,
    StoredModule,
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
    _computed: set[int] = field(default_factory=set)
    _used: set[int] = field(default_factory=set)
    _memories: dict[int, int] = field(default_factory=dict)
    modules: ObjectWriter = field(init=False)
    objects: ObjectWriter = field(init=False)

    def __post_init__(self) -> None:
        self.modules = ObjectWriter(layout.MODULES, self.tensors, self._kept_in_object)
        self.objects = ObjectWriter(layout.OBJECTS, self.tensors, self._kept_in_object)

    def write(self, place: Path, trigger: Any, signals: Any, *, keeps_state: bool) -> None:
        """Write the files of the step into the directory ``place``."""
        manifest = self._manifest(trigger, signals, keeps_state)
        self.modules.write(place)
        self.objects.write(place)
        whole = structs.replace(manifest, tensors=self.tensors.write(place))
        write_whole(place / layout.MANIFEST, encode_manifest(whole))

    def _manifest(self, trigger: Any, signals: Any, keeps_state: bool) -> Manifest:
        record = self.record
        needed = needed_events(record.events)
        self._computed = _computed(needed)
        self._used = used_by_ops(needed)
        for call in record.calls:  # first: parameters are named before they occur elsewhere
            self._module(call)
        events = [self._event(event) for event in needed]
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
        module, wrappers = unwrapped(call.module)
        parameters = []
        for name, parameter in module.named_parameters():
            if is_storable(parameter):
                index = self.tensors.add(parameter, "weights", name)
                self._parameters[id(parameter)] = index
                gradient = None
                if parameter.grad is not None:
                    gradient = self._describe(parameter.grad, name, "gradients")
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
            is_compiled=COMPILED in wrappers,
            wrapper=" ".join(wrappers),
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
        _, wrappers = unwrapped(call.module)
        return StoredCall(
            module=self._module(call),
            args=self._describe(call.args, f"{prefix}.args"),
            kwargs=self._describe(call.kwargs, f"{prefix}.kwargs"),
            random=self._random(call.random),
            autocast=stored_autocast(call.autocast),
            has_gradients=call.has_gradients,
            training=list(call.state.training[len(wrappers) :]),
            requires_grad=list(call.state.requires_grad),
            buffers=self._buffers(call, prefix),
            attributes=self._attributes(call, prefix),
            outputs=[
                self._output(output, f"{prefix}.output_{number}")
                for number, output in enumerate(call.outputs)
            ],
            micro_batch=call.micro_batch,
            line=None if call.line is None else stored_line(*call.line),
            error=None if call.error is None else first_line(call.error),
        )

    def _buffers(self, call: ModuleCall, prefix: str) -> list[StoredBuffer]:
        found = []
        for (module, name), values in call.state.buffers.items():
            inner = inner_name(module, call.module)
            key = ".".join(filter(None, (prefix, inner, name)))
            index = self.tensors.add(values, "buffers", key)
            found.append(StoredBuffer(module=inner, name=name, index=index))
        return found

    def _attributes(self, call: ModuleCall, prefix: str) -> list[StoredAttribute]:
        found = []
        for (module, name), value in call.state.attributes.items():
            is_contents = isinstance(value, Frozen)
            contents = value.contents if isinstance(value, Frozen) else value
            found.append(
                StoredAttribute(
                    module=inner_name(module, call.module),
                    name=name,
                    value=self._describe(contents, f"{prefix}.{name}", "buffers"),
                    is_contents=is_contents,
                )
            )
        return found

    def _output(self, output: CallOutput, name: str) -> StoredOutput:
        return StoredOutput(
            path=self._describe(output.path, name),
            tensor=self._describe(output.tensor, name, "results"),
            gradient=self._tensor(output.gradient, "gradients", name),
            backward=output.backward,
        )

    def _op(self, op: OutsideOp) -> CapturedOp:
        name = function_name(op.function)
        if name is None:
            kept = self.objects.keep(op.function)
            name = f"object:{kept}" if isinstance(kept, int) else f"missing:{kept}"
        return CapturedOp(
            function=name,
            name=op.name,
            args=self._describe(op.args, op.name),
            kwargs=self._describe(op.kwargs, op.name),
            results=self._describe(op.results, f"{op.name}.result", "results"),
            has_gradients=op.has_gradients,
            autocast=stored_autocast(op.autocast),
            line=None if op.line is None else stored_line(*op.line),
            random=None if op.random is None else self._random(op.random),
            written=[
                (self._describe(before, op.name), self._describe(after, op.name))
                for before, after in op.written
            ],
            error=None if op.error is None else first_line(op.error),
        )

    def _backward(self, backward: BackwardPass) -> StoredBackward:
        prefix = f"backward_{backward.number}"
        return StoredBackward(
            is_connected=backward.is_connected,
            roots=self._describe(backward.roots, f"{prefix}.root", "results"),
            gradients=self._describe(backward.gradients, f"{prefix}.gradient", "gradients"),
            parameter_gradients=[
                StoredGradient(
                    parameter=self._parameter(parameter),
                    gradient=self._describe(kept, f"{prefix}.gradient", "gradients"),
                )
                for parameter, kept in backward.parameter_gradients
                if is_storable(parameter) and id(kept) in self._used
            ],
            autocast=stored_autocast(backward.autocast),
            keeps_graph=backward.keeps_graph,
            makes_graph=backward.makes_graph,
            inputs=None
            if backward.inputs is None
            else self._describe(backward.inputs, f"{prefix}.input"),
            error=None if backward.error is None else first_line(backward.error),
        )

    # ------------------------------------------------------------------ values

    def _describe(self, value: Any, name: str, file: TensorFile = "inputs") -> AnyStoredValue:
        values = _RecordValues(self.tensors, self.objects.keep, file, keep=self._describe_kept)
        return values.describe(value, name)

    def _describe_kept(self, kept: KeptTensor, file: TensorFile, name: str) -> AnyStoredValue:
        """A kept tensor; its values are stored unless the step computes them anew."""
        index = leaf = None
        if kept.leaf is not None and is_storable(kept.leaf):
            leaf = self._leaf(kept.leaf, file, name)
        if id(kept) not in self._computed:
            if not is_storable(kept.values):
                return MissingValue(_kind(kept.values), "it is not a dense tensor")
            index = self.tensors.add(kept.values, file, name) if leaf is None else leaf
            if kept.copy is not None:
                index = self.tensors.add(kept.copy, file, name)
        earlier = None if kept.earlier is None else self._key(kept.earlier)
        memory = None
        if kept.memory is not None:
            memory = self._memories.setdefault(kept.memory, len(self._memories))
        return KeptValue(
            self._key(kept), index, kept.requires_grad, leaf, kept.is_known, earlier, memory
        )

    def _kept_in_object(self, kept: KeptTensor) -> Any:
        """The description of a kept tensor in a pickled object, as plain values."""
        return to_builtins(self._describe_kept(kept, "inputs", "object"))

    def _leaf(self, leaf: torch.Tensor, file: TensorFile, name: str) -> int:
        known = self._parameters.get(id(leaf))
        return self.tensors.add(leaf, file, name) if known is None else known

    def _tensor(self, tensor: torch.Tensor | None, file: TensorFile, name: str) -> int | None:
        if tensor is None or not is_storable(tensor):
            return None
        return self.tensors.add(tensor, file, name)

    def _key(self, kept: KeptTensor) -> int:
        return self._keys.setdefault(id(kept), len(self._keys))

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
    """Describes values in which tensors are kept ones, which ``keep`` describes."""

    keep: Callable[[KeptTensor, TensorFile, str], AnyStoredValue] = field(kw_only=True)

    def describe(self, value: Any, name: str, depth: int = 0) -> AnyStoredValue:
        if isinstance(value, KeptTensor):
            return self.keep(value, self.file, name)
        return ValueWriter.describe(self, value, name, depth)


def _computed(events: list[Event]) -> set[int]:
    """Ids of the kept tensors whose values need not be stored, because executing the step gives
    them: results of ops, and results of modules that are too large to compare with."""
    found: set[int] = set()
    roots: set[int] = set()
    for event in events:
        if isinstance(event, OutsideOp):
            found |= {id(each) for each in event.outputs}
            found |= {id(after) for _, after in event.written}
        elif isinstance(event, ModuleCall):
            found |= {
                id(each.tensor)
                for each in event.outputs
                if not each.is_small or not each.tensor.is_unchanged
            }
        else:
            roots |= {id(each) for each in event.roots if each.is_unchanged}
    return found - roots


def _kind(tensor: torch.Tensor) -> str:
    return f"{type(tensor).__module__}:{type(tensor).__qualname__} ({tensor.layout})"


def _is_python_state(state: Any) -> bool:
    return (
        isinstance(state, tuple) and len(state) == 3 and len(state[1]) == len(random.getstate()[1])
    )
