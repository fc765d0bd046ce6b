"""The health page's data: signals over steps, and layers by steps."""

from __future__ import annotations

from sonde.wire.numbers import Integer, Number
from sonde.wire.shapes import Io, Plain


class SignalCurve(Plain, frozen=True):
    """A signal by step; None: not known in this step. Of very many steps only those that are seen
    in a picture of so many points: extremes, and values that are not finite. ``low`` and ``high``:
    the extremes of steps that were thinned to one, empty if none were. ``optimizer``: the curve has
    the steps of this optimizer only, empty if the run has a single one."""

    name: str
    steps: tuple[Integer, ...]
    values: tuple[Number | None, ...]
    low: tuple[Number | None, ...] = ()
    high: tuple[Number | None, ...] = ()
    optimizer: str = ""


class LayerStatisticView(Plain, frozen=True):
    """A statistic that a run has of its layers."""

    name: str
    description: str


class LineageFact(Plain, frozen=True):
    """What made a run, or what it made. ``name`` is a group and a word: ``train learning_rate``."""

    name: str
    value: str


class HealthView(Plain, frozen=True):
    """``first`` and ``last``: the steps that the run has statistics or signals of, None without
    any. ``missing``: why there is no map of layers, and what to do; empty if there is one."""

    rank: Integer
    first: Integer | None
    last: Integer | None
    curves: tuple[SignalCurve, ...]
    statistics: tuple[LayerStatisticView, ...]
    missing: str = ""


class LayerCells(Plain, frozen=True):
    """A part of the map of layers by steps: ``rows`` of ``layers_per_row`` layers from layer
    ``top`` on, ``columns`` of ``steps_per_column`` steps from step ``first`` on. ``layers``: the
    first layer of each row. ``cells``: row by row the greatest value in each cell, as float32 in
    little-endian order, Base64; -inf for a cell without a value. ``other_cells``: the same of the
    other run, empty without one. ``total_layers``, ``first_step`` and ``last_step`` are those
    of the whole map; ``least`` (above zero) and ``greatest`` the ends of a scale for it, its 1st
    and 99th percentile."""

    rank: Integer
    statistic: str
    total_layers: Integer
    first_step: Integer
    last_step: Integer
    top: Integer
    layers_per_row: Integer
    rows: Integer
    first: Integer
    steps_per_column: Integer
    columns: Integer
    layers: tuple[str, ...]
    cells: str
    least: float | None
    greatest: float | None
    other_cells: str = ""


class LayerTensor(Plain, frozen=True):
    """A tensor that a cell is computed from, with its greatest value in the cell and the step that
    has it. ``is_tensor``: the tensor view can show it."""

    op: str
    type: str
    phase: str
    io: Io
    slot: Integer
    step: Integer
    value: Number | None
    is_tensor: bool


class LayerTensors(Plain, frozen=True):
    """The tensors of one cell, the greatest value first."""

    layer: str
    tensors: tuple[LayerTensor, ...]
