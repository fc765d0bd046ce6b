"""Values and statistics of the tensors of a dump."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import SondeError
from sonde.core.keys import Io
from sonde.debugger.values import answers
from sonde.debugger.values.answers import Values
from sonde.dump.reading.directories import DumpProblem
from sonde.dump.tensor_record import TensorRecord
from sonde.server.dumps.index import StepTensors, StoredTensor
from sonde.server.dumps.row_statistics import RowStatistics
from sonde.watch.conditions import Memory, Needs, PreviousValue, memory_of
from sonde.watch.measured_tensor import MeasuredTensor, RecordedStatistics
from sonde.wire.convert import statistic_numbers
from sonde.wire.shapes import StatisticNumbers, TensorName, TensorType

BadKind = Literal["finite", "inf", "nan"]


@dataclass(frozen=True, eq=False)
class DumpTensor(MeasuredTensor):
    """One tensor of a dump: a file, a row, or both. Its file is read once.

    ``before``: the tensors of the previous step, if it is compared with them. ``problems``: files
    that could not be read when conditions were evaluated.
    """

    listing: StepTensors
    stored: StoredTensor
    before: StepTensors | None = None
    problems: list[DumpProblem] = field(default_factory=list)

    @property
    def io(self) -> Io:
        return self.stored.io

    @property
    def slot(self) -> int:
        return self.stored.slot

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def has_values(self) -> bool:
        return self.stored.file is not None

    @property
    def type(self) -> TensorType:
        """From the row or the file; for a damaged file, from its name."""
        row = self.stored.row
        if row is not None:
            return TensorType(row.dtype, row.shape)
        try:
            return TensorType(self._record.dtype, self._record.shape)
        except SondeError:
            return TensorType((self.stored.label or "unknown").lower(), ())

    def values(self) -> Values:
        """DumpError without a file, or if it is damaged."""
        name = TensorName(self.stored.op, self.io, self.slot, self.listing.step.step)
        return Values(name, self._elements, self._record.dtype)

    @cached_property
    def _record(self) -> TensorRecord:
        return self.listing.record(self.stored)

    @cached_property
    def _elements(self) -> NDArray[Any]:
        return self._record.numpy()

    def _array(self) -> NDArray[Any] | None:
        """The values; None without a file, or if it is damaged."""
        try:
            return self._elements if self.has_values else None
        except SondeError:
            return None

    @cached_property
    def row(self) -> RowStatistics | None:
        return None if self.stored.row is None else RowStatistics(self.stored.row)

    def numbers(self) -> StatisticNumbers | None:
        """All statistics there are, from the values if there are any."""
        array = self._array()
        if array is not None:
            found = answers.statistics_of(array)
            return None if found is None else statistic_numbers(found)
        row = self.row
        return None if row is None else row.numbers()

    def bad_kind(self) -> BadKind | None:
        """The worst of its elements; None if that is not known."""
        if self.row is not None and self.stored.row is not None and self.stored.row.values:
            return "nan" if self.row.has_nan else "inf" if self.row.has_inf else "finite"
        array = self._array()
        if array is None:
            return None
        if array.dtype.kind not in "fc" or bool(np.isfinite(array).all()):
            return "finite"
        return "nan" if bool(np.isnan(array).any()) else "inf"

    def fingerprint(self) -> str:
        """Equal for equal values of the same type and shape."""
        row, data = self.stored.row, b""
        numbers: list[tuple[str, object]] = []
        if self.has_values:
            data = np.ascontiguousarray(self.values().array).tobytes()
        elif row is not None:
            numbers = sorted(row.values.items())
        head = repr((self.type.dtype, self.type.shape, numbers)).encode()
        return hashlib.blake2b(head + data, digest_size=12).hexdigest()

    # ------------------------------------------------------------- conditions

    def recorded(self) -> RecordedStatistics | None:
        row = self.row
        if row is None:
            return None
        before = self._previous()
        previous = None if before is None else before.row
        return RecordedStatistics(
            row.as_statistics(),
            None if previous is None else previous.as_statistics(),
            is_all=not self.has_values,
        )

    def buffer(self) -> Memory | str:
        if not self.has_values:
            return "the dump has only statistics of it, which are not enough"
        try:
            memory = self._memory()
        except SondeError as error:
            return self._add_problem(self, error)
        is_complex = self._elements.dtype.kind == "c"
        return f"{self.dtype} values have no order" if is_complex else memory

    def non_finite_count(self) -> int | None:
        array = self._array()
        return None if array is None else int(array.size - np.isfinite(array).sum())

    def previous(self, needs: Needs) -> PreviousValue:
        before = self._previous()
        if before is None or not (needs.previous or needs.previous_statistics):
            return PreviousValue()
        if not before.has_values:
            return PreviousValue(missing="the dump has only statistics of the step before")
        try:
            return PreviousValue(before._memory())
        except SondeError as error:
            return PreviousValue(missing=self._add_problem(before, error))

    def _previous(self) -> DumpTensor | None:
        if self.before is None:
            return None
        found = self.before.find(self.stored.op, self.stored.io, self.stored.slot)
        return None if found is None else DumpTensor(self.before, found)

    def _memory(self) -> Memory:
        array = self._elements
        if not array.flags.aligned:
            array = np.array(array)
        kind = self._record.header.dtype
        return memory_of(array, "float32" if kind == "bfloat16" else kind)

    def _add_problem(self, tensor: DumpTensor, error: SondeError) -> str:
        path = tensor.listing.step.path / (tensor.stored.file or "")
        self.problems.append(DumpProblem.of(path, error))
        return error.message
