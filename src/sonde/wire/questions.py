"""Questions about a tensor, and their answers; the same for a training and for a dump."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from sonde.core.statistics import CellBy
from sonde.wire.numbers import Integer, Number
from sonde.wire.shapes import Plain, SourceLine, StatisticNumbers, TensorName, TensorType

MOST_CELLS: Final = 100_000
MOST_COLUMNS: Final = 1_000


class BaseQuestion(Plain, frozen=True, tag_field="kind"):
    """Base of the questions."""


class AskSummary(BaseQuestion, frozen=True, tag="summary"):
    """Statistics and a histogram of the elements at ``index``, as in ``AskTable``; empty: of the
    whole tensor. Answered by ``Summary``."""

    bins: Integer = 50
    index: str = ""


class AskTable(BaseQuestion, frozen=True, tag="table"):
    """The elements at ``index``, as ``[0, :, 3:5]``: every dimension named, at most two of them
    sliced; empty: the last two dimensions, at index 0 of the others. Answer: ``Table``."""

    index: str = ""


class AskHeat(BaseQuestion, frozen=True, tag="heat"):
    """A picture of the plane at ``index`` with at most ``rows`` x ``columns`` cells, each ``by``
    what it covers, with marks for non-finite elements. Answer: ``Heat``."""

    index: str = ""
    rows: Integer = 256
    columns: Integer = 256
    by: CellBy = "mean"


class AskCompare(BaseQuestion, frozen=True, tag="compare"):
    """This tensor minus ``other`` (same rank), over the plane at ``index``; differences up to
    ``tolerance`` (a share of the largest) are ignored. Answer: ``Compared``."""

    other: TensorName
    index: str = ""
    tolerance: float = 0.0


class AskFile(BaseQuestion, frozen=True, tag="file"):
    """The whole tensor as the bytes of an ``.npy`` file, in chunks."""


class AskOp(BaseQuestion, frozen=True, tag="op"):
    """Statistics of all available inputs and outputs of the op. Answer: ``OpTensors``."""


class AskCheck(BaseQuestion, frozen=True, tag="check"):
    """Evaluate the watchpoints now, on every available tensor; the message's tensor is ignored. The
    hits are sent before the answer: ``Checked``."""


AnyQuestion = AskSummary | AskTable | AskHeat | AskCompare | AskFile | AskOp | AskCheck


class Histogram(Plain, frozen=True):
    """``counts[i]`` finite elements in [edges[i], edges[i + 1]), the last bin closed."""

    edges: tuple[float, ...]
    counts: tuple[Integer, ...]


class Summary(Plain, frozen=True):
    tensor: TensorName
    type: TensorType
    statistics: StatisticNumbers | None
    histogram: Histogram | None


class Table(Plain, frozen=True):
    """``values`` row by row; a tensor of less than two dimensions is one row.

    ``index`` is the one that was used; ``row_start`` and so on say which elements these are.
    """

    tensor: TensorName
    type: TensorType
    index: str
    rows: Integer
    columns: Integer
    row_start: Integer
    column_start: Integer
    row_step: Integer
    column_step: Integer
    values: tuple[Number, ...]


class Heat(Plain, frozen=True):
    """``cells`` row by row, of the finite elements of a cell, None if it has none: their mean, or
    the one of largest magnitude, as the question says;
    ``marks``: the sum of 1 for NaN, 2 for +Inf and 4 for -Inf among its elements. ``low`` and
    ``high``: the extremes of the finite cells."""

    tensor: TensorName
    type: TensorType
    index: str
    rows: Integer
    columns: Integer
    cells: tuple[float | None, ...]
    marks: tuple[Integer, ...]
    low: float | None
    high: float | None


class DistanceNumbers(Plain, frozen=True):
    """The main fields of ``kernels.Distances``."""

    max_abs_error: Number
    mean_abs_error: Number
    max_relative_error: Number
    mean_relative_error: Number
    cosine: Number
    relative_l2: Number
    max_ulp: Number
    within_1: Integer
    within_5: Integer
    equal_count: Integer
    count: Integer
    non_finite_disagreed: Integer


class Compared(Plain, frozen=True):
    """Two tensors and their difference on one plane, and the distances of the whole tensors."""

    a: Table
    b: Table
    difference: Table
    heat: Heat
    distances: DistanceNumbers
    boundary: float


class OpTensor(Plain, frozen=True):
    """``kept``: whether values are available, else ``why`` not; ``steps``: of which steps.
    ``statistics_step``: the step of the statistics, if they were recorded without the values."""

    io: Literal["input", "output"]
    slot: Integer
    type: TensorType
    statistics: StatisticNumbers | None
    kept: bool
    steps: tuple[Integer, ...]
    why: str = ""
    statistics_step: Integer | None = None


class OpTensors(Plain, frozen=True):
    op: str
    step: Integer | None
    tensors: tuple[OpTensor, ...]
    sources: tuple[SourceLine, ...] = ()


AnyAnswer = Summary | Table | Heat | Compared | OpTensors


class Checked(Plain, frozen=True):
    """``judged`` tensors were evaluated and gave ``hits`` new hits. ``missing`` tensors of step
    ``step`` are not available, ``examples`` names some of them. The watchpoints ``later`` are
    evaluated only while a step runs."""

    step: Integer
    judged: Integer
    hits: Integer
    missing: Integer
    examples: tuple[str, ...]
    later: tuple[Integer, ...]


question_decoder: Final = msgspec.msgpack.Decoder(AnyQuestion)
