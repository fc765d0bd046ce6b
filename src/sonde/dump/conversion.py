"""Converts dumps of old formats to the format that Sonde reads: one ``.npy`` file per tensor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sonde.core.errors import DumpError
from sonde.core.files.atomic_file import replace_file, write_whole
from sonde.core.graph import Graph
from sonde.dump import layout
from sonde.dump.bounded_file import read_bytes
from sonde.dump.file_names import FileNamer
from sonde.dump.graph_files.execution_order import read_node_order
from sonde.dump.graph_files.pb import read_graph_file
from sonde.dump.layout import DEFAULT_FORMAT, RankLayout, rank_layout
from sonde.dump.old_formats.ascend_raw import read_raw_file
from sonde.dump.old_formats.bin_files import read_bin_file
from sonde.dump.old_formats.device_formats import is_host_format, to_host
from sonde.dump.old_formats.places import OldStep, find_old_steps
from sonde.dump.old_formats.stored_tensor import OldTensor
from sonde.dump.writing.npy_header import npy_header

_MAX_TEXT_BYTES = 1 << 30

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class ConvertedDump:
    """What was converted. ``device_formats`` are layouts of the device that stay as they are,
    because the shape in the network is not known."""

    tensors: int = 0
    nbytes: int = 0
    steps: set[tuple[int, int]] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    device_formats: set[str] = field(default_factory=set)


def convert(path: Path, out: Path, progress: Progress | None = None) -> ConvertedDump:
    """Write the tensors of the old dump at ``path`` as a new dump at ``out``.

    DumpError if there is none, or if ``out`` exists. A file that cannot be read is a problem; the
    others are converted.
    """
    if not path.exists():
        raise DumpError(f"{path} does not exist", slug="no-dump")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DumpError(
            f"{out} exists already; give a directory that does not exist", slug="convert-out"
        )
    steps = find_old_steps(path)
    if not steps:
        raise DumpError(
            f"{path} holds neither .bin files of MindSpore 1.x nor raw dumps of Ascend",
            slug="no-dump",
        )
    found = ConvertedDump()
    total = sum(len(step.files) for step in steps)
    before = 0
    for step in steps:
        for done in _StepConversion(step, out, found).run():
            if progress is not None:
                progress(before + done, total)
        before += len(step.files)
    return found


@dataclass(slots=True)
class _StepConversion:
    step: OldStep
    out: Path
    found: ConvertedDump
    namer: FileNamer = field(default_factory=FileNamer)
    mapping: list[str] = field(default_factory=list)

    def run(self) -> Iterator[int]:
        """Write all files of the step; yields how many of its files are done."""
        paths = rank_layout(self.out, self.step.rank)
        graphs = self._copy_graphs(paths)
        _write_metadata(paths, self.step)
        graph_id = self.step.graph_id
        if graph_id is None:
            graph_id = next(iter(graphs)) if len(graphs) == 1 else 0
        graph = graphs.get(graph_id)
        directory = paths.step_dir(self.step.net, graph_id, self.step.step)
        directory.mkdir(parents=True, exist_ok=True)
        for tensors, finished in self._tensors(graph):
            for tensor in tensors:
                self._write(directory, tensor)
            yield finished
        if self.mapping:
            write_whole(directory / layout.MAPPING, "".join(self.mapping))

    def _tensors(self, graph: Graph | None) -> Iterator[tuple[list[OldTensor], int]]:
        """The tensors of each file, with timestamps in the order in which the ops ran."""
        bins: list[OldTensor] = []
        for path in self.step.bins:
            try:
                bins.append(_with_host_shape(read_bin_file(path), graph))
            except DumpError as error:
                self._add_problem(error)
        times = self._times(bins)
        for number, tensor in enumerate(bins):
            yield [replace(tensor, timestamp=times[tensor.op_name])], number + 1
        for number, path in enumerate(self.step.raws):
            try:
                raw = read_raw_file(path)
            except DumpError as error:
                self._add_problem(error)
                continue
            self.found.problems += [f"{path}: {problem}" for problem in raw.problems]
            yield raw.tensors, len(self.step.bins) + number + 1

    def _times(self, tensors: list[OldTensor]) -> dict[str, int]:
        """A time for each op: in the order of the schedule, where the dump has it, else in the
        order in which the files were written."""
        order = {name: place for place, name in enumerate(self._schedule())}
        written: dict[str, int] = {}
        for tensor in tensors:
            time = tensor.path.stat().st_mtime_ns
            written[tensor.op_name] = min(time, written.get(tensor.op_name, time))
        names = sorted(written, key=lambda name: (order.get(name, -1), written[name], name))
        start = min(written.values(), default=0) // 1000
        return {name: start + place for place, name in enumerate(names)}

    def _schedule(self) -> tuple[str, ...]:
        home = self.step.home
        names: list[str] = []
        for file in (
            sorted((home / layout.EXECUTION_ORDER).glob("ms_execution*.csv")) if home else ()
        ):
            try:
                text = read_bytes(file, _MAX_TEXT_BYTES, slug="dump-file")
            except DumpError as error:
                self._add_problem(error)
                continue
            names += read_node_order(text.decode("utf-8", "replace"))
        return tuple(names)

    def _copy_graphs(self, paths: RankLayout) -> dict[int, Graph]:
        """Copy the graph files beside the tensors, once per rank; the graphs by their numbers."""
        found: dict[int, Graph] = {}
        home = self.step.home
        if home is None:
            return found
        for name in (layout.GRAPHS, layout.EXECUTION_ORDER):
            for file in sorted((home / name).glob("ms_*")):
                target = paths.root / name / file.name
                if not target.exists() and file.is_file() and not file.is_symlink():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, target, follow_symlinks=False)
                parsed = layout.parse_graph_file(file.name)
                if name == layout.GRAPHS and parsed is not None and parsed[1] == "pb":
                    try:
                        found[parsed[0]] = read_graph_file(file, parsed[0]).graph
                    except DumpError as error:
                        self._add_problem(error)
        return found

    def _write(self, directory: Path, tensor: OldTensor) -> None:
        try:
            values = tensor.array()
        except DumpError as error:
            self._add_problem(error)
            return
        format = tensor.format
        if not is_host_format(format):
            host = None if tensor.host_shape is None else to_host(values, format, tensor.host_shape)
            if host is None:
                self.found.device_formats.add(format)
            else:
                values, format = host, "NCHW" if host.ndim == 4 else DEFAULT_FORMAT
        head, tail = layout.name_parts(
            tensor.op_type, tensor.op_name, tensor.io, tensor.slot, format, tensor.dtype.label
        )
        name = self.namer.tensor(tensor.op_name, head, tensor.timestamp, tail)
        if name.mapping is not None:
            self.mapping.append(name.mapping)
        header = npy_header(tensor.dtype.stored, values.shape)
        data = np.ascontiguousarray(values).data
        replace_file(directory / name.name, lambda file: (file.write(header), file.write(data)))
        self.found.tensors += 1
        self.found.nbytes += values.nbytes
        self.found.steps.add((self.step.rank, self.step.step))

    def _add_problem(self, error: DumpError) -> None:
        if error.message not in self.found.problems:
            self.found.problems.append(error.message)


def _with_host_shape(tensor: OldTensor, graph: Graph | None) -> OldTensor:
    """The shape that a tensor has in the graph, if its file has the device's."""
    if tensor.host_shape is not None or graph is None or tensor.op_name not in graph:
        return tensor
    node = graph.node(tensor.op_name)
    specs = [edge.spec for edge in node.inputs] if tensor.io == "input" else list(node.outputs)
    if tensor.slot >= len(specs):
        return tensor
    return replace(tensor, host_shape=specs[tensor.slot].shape)


def _write_metadata(paths: RankLayout, step: OldStep) -> None:
    """Say where the dump comes from, and with which configuration it was made, if that is there:
    ``.metadata`` is beside the directories of networks or devices."""
    if paths.metadata_config.exists():
        return
    paths.metadata.mkdir(parents=True, exist_ok=True)
    for parent in list(step.files[0].absolute().parents)[:6]:
        config = parent / ".metadata" / "data_dump.json"
        if config.is_file() and not config.is_symlink():
            shutil.copyfile(config, paths.metadata_dump_config)
            break
    kind = "MindSpore's .bin files" if step.bins else "raw files of Ascend"
    facts = {"ms_version": "", "device_target": "", "converted_from": kind}
    write_whole(paths.metadata_config, json.dumps(facts))
