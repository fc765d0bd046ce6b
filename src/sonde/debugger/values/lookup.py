"""Finds the tensors that questions of the server are about, and answers the questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from sonde.core.errors import SondeError, UsageError
from sonde.core.interruption import pass_on
from sonde.core.keys import Io
from sonde.core.sink import OpCall, TensorView
from sonde.debugger.check_now import Here
from sonde.debugger.control import RankState
from sonde.debugger.trainee import Held, Trainee
from sonde.debugger.values.answers import Values, answer, npy_chunks, statistics_of
from sonde.debugger.values.cache import ValueRecorder
from sonde.debugger.values.graphs import GRADIENT_TYPE, GraphRegistry, gradient_name
from sonde.debugger.values.previous import PreviousValues
from sonde.wire.convert import source_lines, statistic_numbers
from sonde.wire.questions import (
    AnyQuestion,
    AskCheck,
    AskCompare,
    AskFile,
    AskOp,
    Checked,
    OpTensor,
    OpTensors,
    question_decoder,
)
from sonde.wire.rank import Answer, Ask, encoder
from sonde.wire.shapes import TensorName, TensorType

_LEAVES: Final = {GRADIENT_TYPE: "gradient"}


class TensorLookup:
    """Finds tensors among the inputs and outputs of the op at which the training is paused, the
    parameters and their gradients, and the cached values. Used from the training thread only.

    The value of a parameter belongs to the step that is about to use it, a gradient to the step
    that computed it. A parameter or gradient that a question is about is kept from then on, so that
    it can be compared with its value of the previous step.
    """

    def __init__(
        self,
        trainee: Trainee,
        state: RankState,
        graphs: GraphRegistry,
        recorder: ValueRecorder,
        previous: PreviousValues,
    ) -> None:
        self._trainee = trainee
        self._state = state
        self._graphs = graphs
        self._recorder = recorder
        self._cache = recorder.values
        self._previous = previous
        self._call: OpCall | None = None
        self._is_inside_step = False

    @contextmanager
    def inside_step(self, call: OpCall | None) -> Iterator[None]:
        """In this block the training is in the middle of its step, after ``call``."""
        self._call, self._is_inside_step = call, True
        try:
            yield
        finally:
            self._call, self._is_inside_step = None, False

    def answers(self, ask: Ask, check: Callable[[Here], Checked]) -> Iterator[Answer]:
        """Yield the answer, in several pieces for a file; an error is an answer, too. ``check``
        evaluates the watchpoints now, for AskCheck."""
        try:
            question: AnyQuestion = question_decoder.decode(ask.question)
            if isinstance(question, AskFile):
                yield from self._file(ask)
                return
            if isinstance(question, AskCheck):
                body: object = check(self._here())
            elif isinstance(question, AskOp):
                body = self._op_tensors(ask.tensor)
            else:
                values = self.find(ask.tensor)
                other = self.find(question.other) if isinstance(question, AskCompare) else None
                body = answer(question, values, other)
            yield Answer(ask.request, encoder.encode(body))
        except SondeError as error:
            yield Answer(ask.request, error=error.message, slug=error.slug)
        except msgspec.DecodeError as error:
            text = f"the question cannot be decoded: {error}"
            yield Answer(ask.request, error=text, slug="debugger-garbage")
        except Exception as error:  # a shield: one question must not end the debugger
            pass_on(error)
            text = f"the question could not be answered: {type(error).__name__}: {error}"
            yield Answer(ask.request, error=text, slug="debugger-failed")

    def _file(self, ask: Ask) -> Iterator[Answer]:
        for chunk in npy_chunks(self.find(ask.tensor)):
            yield Answer(ask.request, chunk, more=True)
        yield Answer(ask.request)

    # --------------------------------------------------------------- finding

    def find(self, name: TensorName) -> Values:
        """The values of a tensor; UsageError says why they are not available, and what to do."""
        self._need_slot(name)
        found = self._look(name.op, name.io, name.slot, name.step)
        if found is None and name.io == "input":
            node = self._graphs.node(name.op)
            if node is not None and name.slot < len(node.inputs):
                edge = node.inputs[name.slot]
                if edge.producer is not None:
                    found = self._look(edge.producer, "output", edge.slot, name.step)
        if found is None:
            raise UsageError(self._why_not(name), slug="tensor-not-kept")
        return Values(msgspec.structs.replace(name, step=found[0]), found[1].array, found[1].dtype)

    def _need_slot(self, name: TensorName) -> None:
        """Raise UsageError if the op is known and has no such input or output."""
        node = self._graphs.node(name.op)
        if node is None or self._here().call_of(name.op) is not None:
            return
        count = len(node.inputs if name.io == "input" else node.outputs)
        if 0 <= name.slot < count:
            return
        if count:
            has = f"it has {count} {name.io}{'s' if count > 1 else ''}, counted from 0"
        else:
            other = "output" if name.io == "input" else "input"
            what = "an op" if node.kind == "op" else f"a {_LEAVES.get(node.type, node.kind)}"
            has = f"it is {what} without {name.io}s; use its {other}"
        raise UsageError(f"{name.op} has no {name.io} {name.slot}: {has}", slug="no-such-tensor")

    def _look(self, op: str, io: Io, slot: int, step: int | None) -> tuple[int, Values] | None:
        call = self._here().call_of(op)
        if call is not None and step in (None, call.step):
            views = call.inputs if io == "input" else call.outputs
            if slot < len(views):
                return call.step, _values(op, views[slot])
        if io == "output" and slot == 0:
            live = self._live(op, step)
            if live is not None:
                return live[0], _values(op, live[1])
        kept = self._cache.find((op, io, slot), step)
        if kept is not None:
            return kept.step, Values(TensorName(op, io, slot), kept.array, kept.dtype)
        if io == "output":
            return self._made_gradient(op, slot, step)
        return None

    def _live(self, name: str, step: int | None) -> tuple[int, TensorView] | None:
        """A parameter or gradient as it is now, or a parameter as it was one step before."""
        for held in self._trainee.held():
            if held.name == name:
                self._keep(held)
                if step in (None, self._state.step):
                    return self._state.step, held.value()
                return self._previous.find(name, step)
            if gradient_name(held.name) == name:
                self._recorder.keep_parameter(name)
                gradient = held.gradient()
                if gradient is not None and step in (None, self._gradient_step):
                    return self._gradient_step, gradient
                return None
        return None

    def _keep(self, held: Held) -> None:
        """Keep the value of a parameter that is shown. Between steps that is done before the next
        step begins; inside a step at once, unless the step has changed the parameter already."""
        if self._is_inside_step and self._trainee.is_updated(held.name):
            self._previous.note_opened(held.name)
        else:
            self._previous.open(held, self._state.step)
            self._recorder.reserve(self._previous.used_bytes)

    def _made_gradient(self, op: str, slot: int, step: int | None) -> tuple[int, Values] | None:
        """The output of an op that became the gradient of a weight, while that gradient exists."""
        if step not in (None, self._gradient_step):
            return None
        for held in self._trainee.held():
            if held.gradient_maker == (op, slot):
                gradient = held.gradient()
                if gradient is not None:
                    return self._gradient_step, _values(op, gradient)
        return None

    def _here(self) -> Here:
        return Here(self._state.step, self._gradient_step, self._is_inside_step, self._call)

    @property
    def _gradient_step(self) -> int:
        """The step that computed the gradients that exist now."""
        return self._state.step if self._is_inside_step else max(self._state.step - 1, 0)

    def _why_not(self, name: TensorName) -> str:
        is_held = any(
            name.op in (held.name, gradient_name(held.name)) for held in self._trainee.held()
        )
        if is_held and name.step is not None:
            return (
                f"step {name.step} of {name.op} was not saved; from now on the previous step is "
                "kept"
            )
        if is_held:
            return f"{name.op} does not exist at this point of the step"
        steps = self._cache.steps((name.op, name.io, name.slot))
        if steps and name.step is not None:
            kept = ", ".join(map(str, steps))
            return f"step {name.step} of {name.op} was not saved; saved are the steps {kept}"
        if self._graphs.node(name.op) is None and self._graphs.graph_with(name.op) is None:
            return f"no op {name.op!r} in the steps observed so far"
        return (
            f"no values of {name.op} yet: run to this op, or keep its values from the next step on"
        )

    # ------------------------------------------------------------------- ops

    def _op_tensors(self, name: TensorName) -> OpTensors:
        """All inputs and outputs of an op, with statistics of those that are available."""
        node = self._graphs.node(name.op)
        call = self._here().call_of(name.op)
        if node is None and call is None:
            raise UsageError(self._why_not(name), slug="tensor-not-kept")
        types: dict[Io, list[TensorType]]
        if call is not None:
            types = {
                "input": [TensorType(view.dtype, view.shape) for view in call.inputs],
                "output": [TensorType(view.dtype, view.shape) for view in call.outputs],
            }
            sources = source_lines(call.node.sources)
        else:
            assert node is not None
            types = {"input": [edge.type for edge in node.inputs], "output": [*node.outputs]}
            sources = node.sources
        tensors = tuple(
            self._op_tensor(TensorName(name.op, io, slot, name.step), type_)
            for io in types
            for slot, type_ in enumerate(types[io])
        )
        return OpTensors(name.op, name.step, tensors, sources)

    def _op_tensor(self, name: TensorName, type_: TensorType) -> OpTensor:
        steps = self._cache.steps((name.op, name.io, name.slot))
        try:
            values = self.find(name)
            statistics = statistics_of(values.array)
        except SondeError as error:
            return OpTensor(name.io, name.slot, type_, None, False, steps, error.message)
        numbers = None if statistics is None else statistic_numbers(statistics)
        step = values.name.step
        all_steps = sorted({*steps, *(() if step is None else (step,))})
        return OpTensor(name.io, name.slot, values.type, numbers, True, tuple(all_steps))


def _values(op: str, view: TensorView) -> Values:
    if view.problem is not None:
        raise UsageError(
            f"the values of {op} cannot be shown: {view.problem}", slug="tensor-values"
        )
    return Values(TensorName(op, view.io, view.slot), view.numpy(), view.dtype)
