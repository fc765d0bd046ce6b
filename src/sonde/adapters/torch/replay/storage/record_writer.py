"""Describes the record of a step as a manifest, and collects its tensors and objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import structs
from torch import nn

from sonde.adapters.torch.replay.module_state import Frozen
from sonde.adapters.torch.replay.needed_ops import needed_events, used_by_ops
from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    CallOutput,
    ModuleCall,
    OutsideOp,
    StepRecord,
)
from sonde.adapters.torch.replay.storage import environment
from sonde.adapters.torch.replay.storage.collected_step import CollectedStep
from sonde.adapters.torch.replay.storage.compilation import compilation_of, compiled_parts
from sonde.adapters.torch.replay.storage.function_names import function_name
from sonde.adapters.torch.replay.storage.kept_value_writer import (
    KeptValueWriter,
    computed_tensors,
)
from sonde.adapters.torch.replay.storage.object_pickle import (
    ObjectWriter,
    first_line,
    unpicklable_hooks,
)
from sonde.adapters.torch.replay.storage.optimizer_writer import stored_optimizer
from sonde.adapters.torch.replay.storage.stored_facts import (
    plain_fields,
    stored_autocast,
    stored_line,
    stored_scaler,
    stored_trigger,
)
from sonde.adapters.torch.replay.storage.tensor_files import (
    TensorWriter,
    is_storable,
)
from sonde.adapters.torch.replay.storage.wrappers import COMPILED, inner_name, unwrapped
from sonde.replay import layout
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
    StoredModule,
    StoredOutput,
    StoredParameter,
    StoredPrior,
    StoredReason,
)


@dataclass(slots=True)
class RecordWriter:
    """Builds the manifest of one record, and collects its tensors and objects."""

    record: StepRecord
    tensors: TensorWriter = field(default_factory=TensorWriter)
    _modules: dict[int, int] = field(default_factory=dict)
    _stored: list[StoredModule] = field(default_factory=list)
    _used: set[int] = field(default_factory=set)
    modules: ObjectWriter = field(init=False)
    objects: ObjectWriter = field(init=False)
    _values: KeptValueWriter = field(init=False)

    def __post_init__(self) -> None:
        self._values = KeptValueWriter(self.tensors, lambda value: self.objects.keep(value))
        kept = self._values.kept_in_object
        self.modules = ObjectWriter(layout.MODULES, self.tensors, kept)
        self.objects = ObjectWriter(layout.OBJECTS, self.tensors, kept)

    def collect(self, trigger: Any, signals: Any, *, keeps_state: bool) -> CollectedStep:
        """What is to be written; the tensors are still those of the program."""
        manifest = self._manifest(trigger, signals, keeps_state)
        pickles = {each.file: each.pickled() for each in (self.modules, self.objects)}
        table, weights = self.tensors.collected()
        whole = structs.replace(manifest, tensors=table)
        return CollectedStep(self.record.step, self.record.rank, whole, pickles, weights)

    def _manifest(self, trigger: Any, signals: Any, keeps_state: bool) -> Manifest:
        record = self.record
        needed = needed_events(record.events)
        self._values.computed = computed_tensors(needed)
        self._used = used_by_ops(needed)
        for call in record.calls:  # first: parameters are named before they occur elsewhere
            self._module(call.name, call.module)
        if keeps_state:
            for name, module in record.owners.items():
                self._module(name, module)
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
                    parameter=self._values.parameter(each.parameter),
                    values=self._values.tensor(each.values, "gradients", "prior"),
                )
                for each in record.prior_gradients.values()
            ],
            optimizer=stored_optimizer(record.optimizer, self._values, keeps_state=keeps_state),
            scaler=stored_scaler(record),
            unreplayable=[
                StoredReason(kind=each.kind, subject=each.subject, detail=each.detail)
                for each in record.unreplayable
            ],
            averaged_over=record.averaged_over,
        )

    # ----------------------------------------------------------------- modules

    def _module(self, scope: str, called: nn.Module) -> int:
        known = self._modules.get(id(called))
        if known is not None:
            return known
        number = self._modules[id(called)] = len(self._stored)
        module, wrappers = unwrapped(called)
        parameters = []
        for name, parameter in module.named_parameters():
            if is_storable(parameter):
                index = self.tensors.add(parameter, "weights", name)
                self._values.parameters[id(parameter)] = index
                parameters.append(self._parameter(name, index, parameter))
        buffers = {
            name: self.tensors.add(buffer, "buffers", name)
            for name, buffer in module.named_buffers()
            if is_storable(buffer)
        }
        kept = self.modules.keep(module)
        kind = type(module)
        stored = StoredModule(
            name=scope,
            of=f"{kind.__module__}:{kind.__qualname__}",
            parameters=parameters,
            buffers=buffers,
            object=None if isinstance(kept, str) else kept,
            problem=kept if isinstance(kept, str) else "",
            is_compiled=COMPILED in wrappers,
            compilation=compilation_of(called),
            compiled_parts=compiled_parts(module),
            wrapper=" ".join(wrappers),
            dropped=unpicklable_hooks(module),
        )
        self._stored.append(stored)
        return number

    def _parameter(self, name: str, index: int, parameter: nn.Parameter) -> StoredParameter:
        averaged = self.record.averaged.get(id(parameter))
        own = None if averaged is None else averaged.own
        gradients = (parameter.grad, name), (own, f"own.{name}")
        described = [
            None if each is None else self._values.describe(each, key, "gradients")
            for each, key in gradients
        ]
        return StoredParameter(
            name=name, index=index, gradient=described[0], own_gradient=described[1]
        )

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
            module=self._module(call.name, call.module),
            args=self._values.describe(call.args, f"{prefix}.args"),
            kwargs=self._values.describe(call.kwargs, f"{prefix}.kwargs"),
            random=self._values.random(call.random),
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
            age=call.age,
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
                    value=self._values.describe(contents, f"{prefix}.{name}", "buffers"),
                    is_contents=is_contents,
                )
            )
        return found

    def _output(self, output: CallOutput, name: str) -> StoredOutput:
        return StoredOutput(
            path=self._values.describe(output.path, name),
            tensor=self._values.describe(output.tensor, name, "results"),
            gradient=self._values.tensor(output.gradient, "gradients", name),
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
            args=self._values.describe(op.args, op.name),
            kwargs=self._values.describe(op.kwargs, op.name),
            results=self._values.describe(op.results, f"{op.name}.result", "results"),
            has_gradients=op.has_gradients,
            autocast=stored_autocast(op.autocast),
            line=None if op.line is None else stored_line(*op.line),
            random=None if op.random is None else self._values.random(op.random),
            written=[
                (self._values.describe(before, op.name), self._values.describe(after, op.name))
                for before, after in op.written
            ],
            error=None if op.error is None else first_line(op.error),
        )

    def _backward(self, backward: BackwardPass) -> StoredBackward:
        prefix = f"backward_{backward.number}"
        return StoredBackward(
            is_connected=backward.is_connected,
            roots=self._values.describe(backward.roots, f"{prefix}.root", "results"),
            gradients=self._values.describe(backward.gradients, f"{prefix}.gradient", "gradients"),
            parameter_gradients=[
                StoredGradient(
                    parameter=self._values.parameter(parameter),
                    gradient=self._values.describe(kept, f"{prefix}.gradient", "gradients"),
                )
                for parameter, kept in backward.parameter_gradients
                if is_storable(parameter) and id(kept) in self._used
            ],
            autocast=stored_autocast(backward.autocast),
            keeps_graph=backward.keeps_graph,
            makes_graph=backward.makes_graph,
            inputs=None
            if backward.inputs is None
            else self._values.describe(backward.inputs, f"{prefix}.input"),
            error=None if backward.error is None else first_line(backward.error),
        )
