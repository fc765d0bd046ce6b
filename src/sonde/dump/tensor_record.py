"""One tensor of a dump."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sonde.core.dtypes import BY_NAME, dtype_named
from sonde.core.errors import DumpError, SondeError
from sonde.core.graph import OpNode, Source, TensorSpec
from sonde.core.keys import TensorKey
from sonde.core.text.number_text import number_text
from sonde.display.tensor_html import tensor_html
from sonde.dump.graph_files.values import NOT_A_TENSOR
from sonde.dump.reading.npy import NpyHeader, read_header
from sonde.dump.reading.pt_file import read_pt_header
from sonde.dump.reading.statistic_rows import StatisticRow

if TYPE_CHECKING:
    from sonde.core.statistics import Statistics


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One tensor of a dump: its values in a file, a row of statistics, or both.

    Files are read on demand. ``node`` is None where the graph is not known;
    ``graph_id`` is None where the process ended inside the step. ``shape_from_graph``: MindSpore
    2.10 gives some values the shape of their op's input; the graph's shape is taken where it has
    as many elements.
    """

    key: TensorKey
    rank: int
    net: str
    graph_id: int | None
    op_type: str
    timestamp: int
    format: str
    dtype_label: str | None
    directory: Path
    file_name: str | None
    node: OpNode | None
    row: StatisticRow | None
    shape_from_graph: bool = False
    _header: NpyHeader | None = field(init=False, default=None, compare=False, repr=False)

    @property
    def path(self) -> Path | None:
        """The file of the values; None where there are only statistics."""
        return None if self.file_name is None else self.directory / self.file_name

    @property
    def spec(self) -> TensorSpec | None:
        """Dtype and shape as the graph has them."""
        if self.node is None:
            return None
        slot = self.key.slot
        if self.key.io == "input":
            return self.node.inputs[slot].spec if slot < len(self.node.inputs) else None
        return self.node.outputs[slot] if slot < len(self.node.outputs) else None

    @property
    def source(self) -> Source | None:
        """The line of the user's code that ran the op."""
        return None if self.node is None else self.node.source

    @property
    def header(self) -> NpyHeader:
        """The checked header of the file; DumpError if it is damaged or there is no file."""
        path = self.path
        if path is None:
            raise DumpError(
                f"{self.key}: the dump has only statistics of this tensor; dump with saved_data "
                "'tensor' or 'full' to get values",
                slug="no-values",
            )
        if self._header is None:
            read = read_pt_header if path.suffix == ".pt" else read_header
            object.__setattr__(self, "_header", read(path))
        assert self._header is not None
        return self._header

    @property
    def dtype(self) -> str:
        """The element type the tensor had, also where the file stores a wider one."""
        if self.dtype_label is not None:
            try:
                return dtype_named(self.dtype_label).name
            except SondeError:
                pass
        if self.row is not None:
            return self.row.dtype
        return self.header.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        if self.file_name is None and self.row is not None:
            return self.row.shape
        shape, spec = self.header.shape, self.spec
        if not self.shape_from_graph or spec is None or spec == NOT_A_TENSOR:
            return shape
        # A size of -1 is known only when the graph runs.
        is_known = all(size >= 0 for size in spec.shape)
        return spec.shape if is_known and prod(spec.shape) == prod(shape) else shape

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor as it was in memory, dense; the file may be wider."""
        dtype = BY_NAME.get(self.dtype)
        return prod(self.shape) * dtype.itemsize if dtype is not None else self.header.nbytes

    def numpy(self) -> NDArray[Any]:
        """The values, read-only, widened where numpy lacks the type; mapped if large."""
        return self.header.array(self.shape)

    def single_number(self) -> float | None:
        """The value of a tensor of one element, from its file or statistics; None if unknown."""
        if self.path is not None:
            return float(self.numpy().reshape(-1)[0])
        value = None if self.row is None else self.row.values.get("max")
        return float(value) if isinstance(value, int | float) else None

    def _repr_html_(self) -> str:
        """The tensor in a notebook; of a dump without values only the numbers."""
        values = statistics = None
        problem = ""
        if self.path is not None:
            try:
                if not self.header.dtype.startswith("complex"):
                    values, statistics = self.numpy(), self.statistics()
            except DumpError as error:
                problem = error.message
        numbers = {} if statistics is not None or self.row is None else self.row.values
        known = ", ".join(f"{name} {number_text(value)}" for name, value in numbers.items())
        return tensor_html(
            values,
            statistics,
            dtype=self.dtype,
            shape=self.shape,
            name=f"{self.key.op} {self.key.io}.{self.key.slot}, step {self.key.step}",
            printed=problem or known,
        )

    def statistics(self) -> Statistics:
        """All statistics, computed from the values in one pass."""
        from sonde.kernels import summarize_array

        return summarize_array(self.numpy())
