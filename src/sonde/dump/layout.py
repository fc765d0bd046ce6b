"""All names of the on-disk format; ``docs/dump-format.md`` is the page for people.

Pure text and paths: nothing here touches the disk. The names are those of MindSpore's CPU/GPU
dump with the ``.{dtype}`` part of its O0/O1 dump.
"""

from __future__ import annotations

import csv
import io as text_io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from sonde.core.graph import LEAF_TYPES
from sonde.core.keys import Io
from sonde.core.statistics import CATEGORIES

METADATA = ".dump_metadata"
GRAPHS = "graphs"
EXECUTION_ORDER = "execution_order"
CONSTANTS = "constants"
STEPS = "steps"
"""Holds the captured steps of a dump with ``saved_data`` "step"."""
REPLAYED = ".replayed"
"""Holds the tensors that were computed from captured steps when the dump was read."""
UNFINISHED = "unfinished"
"""Holds the directories of steps whose graph is not known yet, in the place of a graph's id."""

STATISTIC = "statistic.csv"
STATISTICS = "statistics"
"""Holds the statistics of all steps of a rank as Parquet files."""
MAPPING = "mapping.csv"
OVERFLOW = "overflow.json"
FINDINGS = "findings.json"

DEFAULT_FORMAT = "DefaultFormat"
NAME_LIMIT_BYTES = 255

STATISTIC_COLUMNS = (
    "Op Type",
    "Op Name",
    "Task ID",
    "Stream ID",
    "Timestamp",
    "IO",
    "Slot",
    "Data Size",
    "Data Type",
    "Shape",
)
STATISTIC_TITLES: dict[str, str] = {name: each.heading for name, each in CATEGORIES.items()}
"""Column title of each category of ``statistic.csv``."""

# Characters that file names cannot have on some systems to which dumps are copied.
_UNSAFE = dict.fromkeys((*range(32), 127, *map(ord, '/\\:*?"<>|')), "_")
_UNSAFE_AND_DOT = {**_UNSAFE, ord("."): "_"}
_LEAF_TYPE_NAMES = frozenset(LEAF_TYPES.values())

_NUMBER = "([0-9]{1,18})"
_TENSOR_FILE = re.compile(
    rf"([^.]+)\.(.+)\.{_NUMBER}\.{_NUMBER}\.{_NUMBER}\.(input|output)\.{_NUMBER}"
    r"\.([^.]+)(?:\.([^.]+))?\.npy",
    re.DOTALL,
)
_SHORT_NAME = re.compile(r"[0-9]{1,18}\.(?:npy|json)")
_RANK = re.compile(r"rank_([0-9]{1,9})")
_CAPTURED = re.compile(r"step_([0-9]{1,18})\.rank_([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_GRAPH_FILE = re.compile(r"ms_output_trace_code_graph_([0-9]{1,9})(?:_[0-9]+)?\.(ir|pb|columns)")


def escape(text: str, *, dots: bool = False) -> str:
    """``text`` as part of a file name: ``/`` and unsafe characters become ``_``; not reversible."""
    valid = text.encode("utf-8", "replace").decode()
    return valid.translate(_UNSAFE_AND_DOT if dots else _UNSAFE) or "_"


def escape_op(op_type: str, op_name: str) -> str:
    """``{op_type}.{op_name}`` as file names begin; leaves lose their dots, as in MindSpore."""
    return f"{escape(op_type, dots=True)}.{escape(op_name, dots=op_type in _LEAF_TYPE_NAMES)}"


def name_parts(
    op_type: str, op_name: str, io: Io, slot: int, format: str, dtype_label: str
) -> tuple[str, str]:
    """A tensor's file name before and after the timestamp, the one part that changes per step.

    Without dtype part if the label is empty. ``FileNamer`` shortens the name if it is too long for
    the file system.
    """
    kind = f".{escape(dtype_label, dots=True)}" if dtype_label else ""
    return (
        f"{escape_op(op_type, op_name)}.0.0.",
        f".{io}.{slot}.{escape(format, dots=True)}{kind}.npy",
    )


@dataclass(frozen=True, slots=True)
class TensorFile:
    """The parts of a tensor's file name; ``op_name`` is still escaped.

    ``dtype_label`` is None in the naming of older MindSpore versions.
    """

    op_type: str
    op_name: str
    task: int
    stream: int
    timestamp: int
    io: Io
    slot: int
    format: str
    dtype_label: str | None

    @property
    def op(self) -> str:
        """The part of the name for the op, as ``escape_op`` writes it."""
        return f"{self.op_type}.{self.op_name}"


def parse_tensor_file_name(text: str) -> TensorFile | None:
    """The parts of a tensor's file name; None for any other name.

    A partial file's name is never taken for a tensor's.
    """
    match = None if text.startswith(".") else _TENSOR_FILE.fullmatch(text)
    if match is None:
        return None
    return TensorFile(
        match[1],
        match[2],
        int(match[3]),
        int(match[4]),
        int(match[5]),
        cast(Io, match[6]),
        int(match[7]),
        match[8],
        match[9],
    )


def constant_file_name(data_id: int, timestamp: int, dtype_label: str) -> str:
    name = f"data-{data_id}"
    head, tail = name_parts("Parameter", name, "output", 0, DEFAULT_FORMAT, dtype_label)
    return f"{head}{timestamp}{tail}"


def kernel_args_file_name(op_type: str, op_name: str) -> str:
    """The full name of the file of an op's arguments; ``FileNamer.shorten`` may be needed."""
    return f"{escape_op(op_type, op_name)}.json"


def is_partial(name: str) -> bool:
    """True of the hidden names that the writers give to files until they are complete."""
    return name.startswith(".") and name.endswith(".partial")


def is_short_name(name: str) -> bool:
    """True of ``<number>.npy`` and ``<number>.json``, whose full names are in ``mapping.csv``."""
    return _SHORT_NAME.fullmatch(name) is not None


def statistic_header(categories: Iterable[str]) -> str:
    """The first line of ``statistic.csv``, without line end."""
    return ",".join((*STATISTIC_COLUMNS, *(STATISTIC_TITLES[name] for name in categories)))


def statistic_row_parts(
    op_type: str,
    op_name: str,
    io: Io,
    slot: int,
    nbytes: int,
    dtype_label: str,
    shape: tuple[int, ...],
) -> tuple[str, str]:
    """The fixed columns of a row before and after the timestamp; the op's name is in full.

    ``head + timestamp + tail`` ends after the shape, without comma.
    """
    out = text_io.StringIO()
    csv.writer(out, lineterminator="").writerow((op_type, op_name, 0, 0))
    return (
        out.getvalue() + ",",
        f',{io},{slot},{nbytes},{dtype_label},"{shape_text(shape)}"',
    )


def shape_text(shape: tuple[int, ...]) -> str:
    """``(4,1,28,28)``, ``(4)``, ``()``: as MindSpore writes shapes in ``statistic.csv``."""
    return f"({','.join(map(str, shape))})"


@dataclass(frozen=True, slots=True)
class RankLayout:
    """The paths below one ``rank_N``."""

    root: Path

    @property
    def metadata(self) -> Path:
        return self.root / METADATA

    @property
    def metadata_config(self) -> Path:
        """The program that made the dump: device, versions."""
        return self.metadata / "config.json"

    @property
    def observation(self) -> Path:
        """What of the run was observed."""
        return self.metadata / "observation.json"

    @property
    def overflow(self) -> Path:
        """The verdict on NaN and Inf over the whole run."""
        return self.root / OVERFLOW

    @property
    def findings(self) -> Path:
        """What a diagnosis of the training found."""
        return self.root / FINDINGS

    @property
    def metadata_dump_config(self) -> Path:
        """The dump configuration as the user wrote it."""
        return self.metadata / "data_dump.json"

    @property
    def graphs(self) -> Path:
        return self.root / GRAPHS

    @property
    def statistics(self) -> Path:
        """The statistics of all steps as Parquet files, see ``dump.statistic_store``."""
        return self.root / STATISTICS

    @property
    def execution_order(self) -> Path:
        return self.root / EXECUTION_ORDER

    def graph_ir(self, graph_id: int) -> Path:
        return self.graphs / f"ms_output_trace_code_graph_{graph_id}.ir"

    def graph_pb(self, graph_id: int) -> Path:
        return self.graphs / f"ms_output_trace_code_graph_{graph_id}.pb"

    def graph_columns(self, graph_id: int) -> Path:
        """The side file of a large ``graph_pb``, see ``dump.graph_files.columns``."""
        return columns_file(self.graph_pb(graph_id))

    def order_csv(self, graph_id: int) -> Path:
        """The ops of a graph in execution order."""
        return self.execution_order / f"ms_execution_order_graph_{graph_id}.csv"

    def global_order_csv(self, graph_id: int) -> Path:
        """The steps a graph ran in."""
        return self.execution_order / f"ms_global_execution_order_graph_{graph_id}.csv"

    def graph_dir(self, net: str, graph_id: int) -> Path:
        return self.root / escape(net) / str(graph_id)

    def step_dir(self, net: str, graph_id: int, step: int) -> Path:
        return self.graph_dir(net, graph_id) / str(step)

    def unfinished_step_dir(self, net: str, step: int) -> Path:
        """The directory of a step until its graph is known; it is then renamed to ``step_dir``."""
        return self.root / escape(net) / UNFINISHED / str(step)

    def constants_dir(self, net: str, graph_id: int) -> Path:
        return self.graph_dir(net, graph_id) / CONSTANTS


def rank_layout(dump: Path, rank: int) -> RankLayout:
    """The paths of one rank of the dump at ``dump`` (the ``path`` of the configuration)."""
    return RankLayout(dump / f"rank_{rank}")


def parse_rank(name: str) -> int | None:
    match = _RANK.fullmatch(name)
    return None if match is None else int(match[1])


def parse_captured_step(name: str) -> tuple[int, int, int] | None:
    """Step, rank and repetition in the name of a captured step."""
    found = _CAPTURED.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def columns_file(graph_pb: Path) -> Path:
    """The path of the side file of a ``.pb``."""
    return graph_pb.with_suffix(".columns")


GraphFileKind = Literal["ir", "pb", "columns"]


def parse_graph_file(name: str) -> tuple[int, GraphFileKind] | None:
    """Graph id and kind of a file in ``graphs/``."""
    match = _GRAPH_FILE.fullmatch(name)
    return None if match is None else (int(match[1]), cast(GraphFileKind, match[2]))


def parse_id(name: str) -> int | None:
    """The number of a directory named for a graph or a step."""
    return int(name) if name.isascii() and name.isdigit() and len(name) <= 18 else None
