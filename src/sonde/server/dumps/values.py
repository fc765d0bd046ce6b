"""Values and statistics of the tensors of a dump."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sonde.core.errors import SondeError, UsageError
from sonde.core.statistics import Statistics
from sonde.debugger.values import answers
from sonde.debugger.values.answers import Values
from sonde.server.dumps.index import StepTensors, StoredTensor
from sonde.server.dumps.row_statistics import RowStatistics
from sonde.watch.conditions import Evidence, Former, Memory, Needs, measure, memory_of
from sonde.wire.convert import statistic_numbers
from sonde.wire.shapes import StatisticNumbers, TensorName, TensorType

BadKind = Literal["finite", "inf", "nan"]


@dataclass(frozen=True, slots=True, eq=False)
class DumpTensor:
    """One tensor of a dump: a file, a row, or both."""

    listing: StepTensors
    stored: StoredTensor

    @property
    def name(self) -> TensorName:
        stored = self.stored
        return TensorName(stored.op, stored.io, stored.slot, self.listing.step.step)

    @property
    def has_values(self) -> bool:
        return self.stored.file is not None

    @property
    def type(self) -> TensorType:
        """As the row or the file has it; of a damaged file what its name tells."""
        row = self.stored.row
        if row is not None:
            return TensorType(row.dtype, row.shape)
        record = self.listing.record(self.stored)
        try:
            return TensorType(record.dtype, record.shape)
        except SondeError:
            return TensorType((self.stored.label or "unknown").lower(), ())

    def values(self) -> Values:
        """DumpError without a file, or if it is damaged."""
        record = self.listing.record(self.stored)
        return Values(self.name, record.numpy(), record.dtype)

    def row(self) -> RowStatistics | None:
        return None if self.stored.row is None else RowStatistics(self.stored.row)

    def statistics(self) -> Statistics | None:
        """Of the values; None without a file, or for a type that has none."""
        return answers.statistics_of(self.values().array) if self.has_values else None

    def numbers(self) -> StatisticNumbers | None:
        """All numbers there are, from the values where there are some."""
        if self.has_values:
            try:
                found = self.statistics()
                return None if found is None else statistic_numbers(found)
            except SondeError:
                pass
        row = self.row()
        return None if row is None else row.numbers()

    def bad_kind(self) -> BadKind | None:
        """The worst of its elements; None if that cannot be told."""
        row = self.row()
        if row is not None and self.stored.row is not None and self.stored.row.values:
            numbers = row.numbers()
            if numbers.nan_count:
                return "nan"
            if numbers.positive_inf_count or numbers.negative_inf_count:
                return "inf"
            return "finite"
        try:
            array = self.values().array if self.has_values else None
        except SondeError:
            return None
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

    def memory(self) -> Memory:
        record = self.listing.record(self.stored)
        array = record.numpy()
        if not array.flags.aligned:
            array = np.array(array)
        kind = record.header.dtype
        return memory_of(array, "float32" if kind == "bfloat16" else kind)

    def evidence(
        self,
        needs: Needs,
        former: DumpTensor | None,
        inputs_finite: bool | None,
        *,
        from_row: bool,
    ) -> Evidence:
        """What conditions ask for. ``from_row``: of the row alone, without reading the file."""
        step = self.listing.step.step
        row = self.row()
        if from_row and row is not None:
            is_asked = needs.previous or needs.previous_statistics
            before = former.row() if is_asked and former is not None else None
            return Evidence(
                statistics=row.as_statistics(),
                previous=None if before is None else before.as_statistics(),
                inputs_finite=inputs_finite,
                step=step,
            )
        if not self.has_values:
            missing = "the dump has only statistics of it, and these do not tell"
            return Evidence(missing=missing, inputs_finite=inputs_finite, step=step)
        try:
            if self.type.dtype.startswith("complex"):
                array = self.values().array
                count = int(array.size - np.isfinite(array).sum())
                missing = f"{self.type.dtype} values have no order"
                return Evidence(
                    missing=missing, non_finite=count, inputs_finite=inputs_finite, step=step
                )
            memory = self.memory()
            before_it = None if former is None else _former(former, needs)
        except SondeError as error:
            return Evidence(missing=error.message, inputs_finite=inputs_finite, step=step)
        return measure(memory, needs, former=before_it, inputs_finite=inputs_finite, step=step)


def _former(tensor: DumpTensor, needs: Needs) -> Former:
    if not needs.previous and not needs.previous_statistics:
        return Former()
    if not tensor.has_values:
        return Former(missing="the dump has only statistics of the step before")
    return Former(tensor.memory(), tensor.statistics())


def need_values(tensor: DumpTensor) -> None:
    """UsageError unless the dump has the values."""
    if not tensor.has_values:
        raise UsageError(
            "the dump has only statistics of this tensor; dump with saved_data 'tensor' or "
            "'full' to have values",
            slug="no-values",
        )
