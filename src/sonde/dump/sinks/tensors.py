"""Saves the tensors of op calls as files (``saved_data: tensor``).

A ``Writer`` writes the values in the background. An input that is an unchanged earlier output
becomes a hard link to that output's file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sonde.core.dtypes import dtype_named
from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.sink import Hold, OpCall, Sink, StepEnd, TensorView, is_useless
from sonde.core.text.problem_line import ProblemLine
from sonde.dump import layout
from sonde.dump.file_names import FileNamer
from sonde.dump.sinks.steps import StepFiles, raise_failure
from sonde.dump.writing.free_memory import is_scarce
from sonde.dump.writing.npy_header import npy_header
from sonde.dump.writing.writer import LINKABLE_JOBS, Writer

_TIMESTAMP_DIGITS = 16


class TensorDump(Sink):
    """Writes the wanted tensors of each step below ``files``. Used from the training thread.

    ``ios``: inputs, outputs or both; ``memory_order`` keeps channels-last tensors in the order of
    memory; ``kernel_args`` adds a JSON file of each op's arguments; ``synchronous`` waits for the
    files of an op before the next op runs, as is done anyway when memory is scarce; ``sample``: the
    most elements to save of a tensor, 0 for all; ``keeps_useless``: see `core.sink.is_useless`.
    """

    def __init__(
        self,
        files: StepFiles,
        writer: Writer,
        *,
        ios: frozenset[Io],
        memory_order: bool = False,
        kernel_args: bool = False,
        synchronous: bool = False,
        sample: int = 0,
        keeps_useless: bool = False,
        report: Callable[[str], None],
    ) -> None:
        self._files = files
        self._writer = writer
        self._inputs = "input" in ios
        self._outputs = "output" in ios
        self._memory_order = memory_order
        self._kernel_args = kernel_args
        self._synchronous = synchronous
        self._sample = sample
        self._keeps_useless = keeps_useless
        self._report = report
        self._directory = ""
        self._namer = FileNamer()
        self._parts: dict[tuple[int, Io, int], _Parts] = {}
        self._owners: dict[str, str] = {}
        self._jobs: dict[object, tuple[int, tuple[int, ...]]] = {}
        self._constants: list[tuple[int, OpNode, str]] = []
        self._skipped: set[str] = set()
        self._last_job = 0

    def begin_step(self, step: int) -> None:
        self._directory = ""
        self._namer = FileNamer(owners=self._owners)
        self._jobs.clear()
        self._constants.clear()

    def has(self, view: TensorView) -> bool:
        if not self._inputs:
            return True
        known = self._jobs.get(view.token)
        # The writer forgets old jobs: a job that is about to be forgotten cannot be linked.
        return (
            known is not None
            and known[1] == view.shape
            and self._last_job - known[0] < LINKABLE_JOBS // 2
        )

    def write(self, call: OpCall) -> None:
        if not self._directory:
            self._directory = f"{self._files.open(call.step)}{os.sep}"
        node = call.node
        timestamp = str(call.timestamp)
        if self._inputs:
            for view in call.inputs:
                self._write_view(node, timestamp, view)
        if self._outputs:
            for view in call.outputs:
                if self._keeps_useless or not is_useless(view, node):
                    self._write_view(node, timestamp, view)
        if self._kernel_args and node.kind == "op":
            self._write_arguments(call)
        if self._synchronous or is_scarce(self._writer.pending_bytes):
            self._writer.wait_all()
        if self._writer.error is not None:
            raise_failure(self._writer)

    def _write_view(self, node: OpNode, timestamp: str, view: TensorView) -> None:
        token = view.token
        if token is not None:
            known = self._jobs.get(token)
            if (
                known is not None
                and known[1] == view.shape
                and self._writer.link(known[0], self._path(node, timestamp, view, _DEFAULT))
            ):
                self._files.running.add(0)
                return
        problem = view.problem
        if problem is not None:
            self._skip(node, view, problem)
            return
        hold = view.hold(memory_order=self._memory_order, sample=self._sample)
        path = self._path(node, timestamp, view, hold.layout)
        header = npy_header(hold.stored, hold.shape)
        job = self._last_job = self._submit(path, header, hold)
        self._files.running.add(len(header) + hold.nbytes)
        if not hold.is_copy:
            hold.job = job
            hold.on_change = self._writer.own
        if token is not None and hold.layout == _DEFAULT:
            self._jobs[token] = (job, view.shape)
        if node.kind == "constant":
            self._constants.append((job, node, timestamp))

    def _submit(self, path: str, header: bytes, hold: Hold) -> int:
        if hold.strides is None:
            return self._writer.write(path, header, hold.address, hold.nbytes, hold)
        itemsize = np.dtype(hold.stored).itemsize
        return self._writer.write_strided(
            path, header, hold.address, itemsize, hold.shape, hold.strides, hold
        )

    def _path(self, node: OpNode, timestamp: str, view: TensorView, tensor_layout: str) -> str:
        key = (id(node), view.io, view.slot)
        parts = self._parts.get(key)
        if parts is None or parts.dtype != view.dtype or parts.layout != tensor_layout:
            parts = self._parts[key] = self._new_parts(node, view, tensor_layout)
        if parts.is_plain:
            return f"{self._directory}{parts.head}{timestamp}{parts.tail}"
        name = self._namer.tensor(node.name, parts.head, int(timestamp), parts.tail)
        if name.mapping is not None:
            self._files.append_mapping(name.mapping)
        return f"{self._directory}{name.name}"

    def _new_parts(self, node: OpNode, view: TensorView, tensor_layout: str) -> _Parts:
        label = dtype_named(view.dtype).label
        head, tail = layout.name_parts(
            node.type, node.name, view.io, view.slot, tensor_layout, label
        )
        size = len(head.encode()) + _TIMESTAMP_DIGITS + len(tail.encode())
        is_alone = self._owners.setdefault(head, node.name) == node.name
        is_plain = is_alone and size <= layout.NAME_LIMIT_BYTES
        return _Parts(node, view.dtype, tensor_layout, head, tail, is_plain)

    def _write_arguments(self, call: OpCall) -> None:
        name = self._namer.shorten(layout.kernel_args_file_name(call.node.type, call.node.name))
        if name.mapping is not None:
            self._files.append_mapping(name.mapping)
        text = json.dumps(dict(call.attributes), indent=4) + "\n"
        self._writer.write_text(f"{self._directory}{name.name}", text.encode())
        self._files.running.add(len(text))

    def _skip(self, node: OpNode, view: TensorView, problem: str) -> None:
        if view.is_filled and view.nbytes and problem not in self._skipped:
            self._skipped.add(problem)
            text = (
                f"sonde: {node.name} {view.io} {view.slot} is not dumped: {problem}; "
                "others like it are left out too"
            )
            self._report(ProblemLine(text, slug="tensor-not-dumped"))

    def end_step(self, end: StepEnd) -> None:
        if self._constants and self._files.is_new(end.graph):
            directory = self._files.constants_directory(end.graph)
            for number, (job, node, timestamp) in enumerate(self._constants):
                label = dtype_named(node.outputs[0].dtype).label
                name = layout.constant_file_name(number, int(timestamp), label)
                self._writer.link(job, str(directory / name))
                self._files.running.add(0)
        raise_failure(self._writer)


_DEFAULT = layout.DEFAULT_FORMAT


class _Parts(NamedTuple):
    """The fixed parts of one tensor's file name. Keeps the node alive: its id is the key."""

    node: OpNode
    dtype: str
    layout: str
    head: str
    tail: str
    is_plain: bool
