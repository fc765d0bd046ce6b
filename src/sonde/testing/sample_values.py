"""The contents of a simulated training: metadata, random values of tensors, hits.

The ops ``log`` and ``mean`` produce NaN from step 5 on.
"""

from __future__ import annotations

import os
import time
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.debugger.values import answers
from sonde.wire.convert import statistic_numbers
from sonde.wire.questions import (
    AskCheck,
    AskCompare,
    AskFile,
    AskOp,
    Checked,
    OpTensor,
    OpTensors,
    question_decoder,
)
from sonde.wire.rank import Ask, encoder
from sonde.wire.shapes import Hit, Io, Metadata, Node, ParameterValue, TensorName, TensorType

SAMPLE_TOKEN = "the-token-of-a-sample-server"
"""Of servers in tests."""
NAN_FROM_STEP = 5
KEPT_STEPS = 3


def sample_metadata(rank: int = 0, world_size: int = 1) -> Metadata:
    return Metadata(
        host="here",
        pid=os.getpid(),
        rank=rank,
        world_size=world_size,
        device="cpu",
        framework="torch",
        framework_version="2.13.0",
        sonde_version="0.1.0",
        python_version="3.11.0",
        script="/home/me/train.py",
        arguments=("--lr", "0.1"),
        working_directory="/home/me",
        started=time.time(),
        extra={"batch": "32"},
    )


@dataclass(frozen=True, slots=True)
class SampleValues:
    """Random values of all tensors of a graph, and the answers to questions about them."""

    nodes: dict[str, Node]
    rank: int

    def array(self, tensor: TensorName, latest_step: int) -> NDArray[Any]:
        node = self.nodes[tensor.op]
        types = node.outputs if tensor.io == "output" else [edge.type for edge in node.inputs]
        step = latest_step if tensor.step is None else tensor.step
        seed = zlib.crc32(f"{tensor.op}{tensor.io}{tensor.slot}{step}{self.rank}".encode())
        made = np.random.default_rng(seed).normal(size=types[tensor.slot].shape)
        values: NDArray[Any] = np.asarray(made, np.float32)
        if node.type in ("log", "mean") and step >= NAN_FROM_STEP and tensor.io == "output":
            values.reshape(-1)[:: max(values.size // 5, 1)] = np.nan
        return values

    def bodies(self, ask: Ask, step: int) -> list[bytes]:
        """The bodies of the answers; KeyError or IndexError for a tensor that does not exist."""
        question = question_decoder.decode(ask.question)
        if isinstance(question, AskCheck):
            names = tuple(self.nodes)
            return [encoder.encode(Checked(step, 1, 0, len(names) - 1, names[:3], ()))]
        if isinstance(question, AskOp):
            return [encoder.encode(self._op_tensors(ask.tensor, step))]
        values = self._of(ask.tensor, step)
        if isinstance(question, AskFile):
            return list(answers.npy_chunks(values))
        other = self._of(question.other, step) if isinstance(question, AskCompare) else None
        return [encoder.encode(answers.answer(question, values, other))]

    def _of(self, tensor: TensorName, step: int) -> answers.Values:
        return answers.Values(tensor, self.array(tensor, step), "float32")

    def _op_tensors(self, tensor: TensorName, step: int) -> OpTensors:
        node = self.nodes[tensor.op]
        steps = tuple(range(max(step - KEPT_STEPS + 1, 0), step + 1))
        slots: list[tuple[Io, int, TensorType]] = [
            *(("input", slot, edge.type) for slot, edge in enumerate(node.inputs)),
            *(("output", slot, type_) for slot, type_ in enumerate(node.outputs)),
        ]
        found = []
        for io, slot, type_ in slots:
            array = self.array(TensorName(node.name, io, slot, tensor.step), step)
            statistics = answers.statistics_of(array)
            numbers = statistic_numbers(statistics) if statistics is not None else None
            found.append(OpTensor(io, slot, type_, numbers, True, steps))
        return OpTensors(node.name, tensor.step, tuple(found), node.sources)

    def hit(self, number: int, watchpoint: int, step: int, node: Node, origin: Node) -> Hit:
        """A hit of ``tensor_overflow`` at ``node``, whose NaN come from ``origin``."""
        return Hit(
            number=number,
            watchpoint=watchpoint,
            condition="tensor_overflow",
            rank=self.rank,
            step=step,
            order=node.order,
            op=node.name,
            io="output",
            slot=0,
            type=node.outputs[0],
            verdict="hit",
            why="",
            values=(ParameterValue("nan_count", 0, 5),),
            part="producer" if node is origin else "carrier",
            origin=origin.name,
            chain=tuple(dict.fromkeys((origin.name, node.name))),
            source=node.sources[0],
        )
