"""What may be asked about a tensor, and the answers; the same live and from a dump."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from sonde.wire.numbers import Number
from sonde.wire.shapes import Plain, SourceLine, StatisticNumbers, TensorName, TensorType

MOST_CELLS: Final = 100_000
MOST_COLUMNS: Final = 1_000


class Question(Plain, frozen=True, tag_field="kind"):
    """The parent of the questions."""


class AskSummary(Question, frozen=True, tag="summary"):
    """Statistics and a histogram of the whole tensor; answered by ``Summary``."""

    bins: int = 50


class AskTable(Question, frozen=True, tag="table"):
    """The elements at ``index``, as ``[0, :, 3:5]``: every dimension named, at most two of them
    sliced; empty: the last two dimensions at the first place of the others. Answer: ``Table``."""

    index: str = ""


class AskHeat(Question, frozen=True, tag="heat"):
    """A picture of the plane at ``index`` with at most ``rows`` x ``columns`` cells, each the
    mean of the elements it covers, with its non-finite ones told apart. Answer: ``Heat``."""

    index: str = ""
    rows: int = 256
    columns: int = 256


class AskCompare(Question, frozen=True, tag="compare"):
    """This tensor minus ``other`` (same rank), over the plane at ``index``; differences up to
    ``tolerance`` (a share of the largest) count as none. Answer: ``Compared``."""

    other: TensorName
    index: str = ""
    tolerance: float = 0.0


class AskFile(Question, frozen=True, tag="file"):
    """The whole tensor as the bytes of an ``.npy`` file, in chunks."""


class AskOp(Question, frozen=True, tag="op"):
    """Statistics of all inputs and outputs of the op that are at hand. Answer: ``OpTensors``."""


class AskCheck(Question, frozen=True, tag="check"):
    """Ask the watchpoints now, of every tensor that is at hand; of no tensor in particular. The
    hits come before the answer: ``Checked``."""


AnyQuestion = AskSummary | AskTable | AskHeat | AskCompare | AskFile | AskOp | AskCheck


class Histogram(Plain, frozen=True):
    """``counts[i]`` finite elements in [edges[i], edges[i + 1]), the last bin closed."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


class Summary(Plain, frozen=True):
    tensor: TensorName
    type: TensorType
    statistics: StatisticNumbers | None
    histogram: Histogram | None


class Table(Plain, frozen=True):
    """``values`` row by row; a tensor of less than two dimensions is one row.

    ``index`` is the one that was used, ``row_start`` and so on say which elements these are.
    """

    tensor: TensorName
    type: TensorType
    index: str
    rows: int
    columns: int
    row_start: int
    column_start: int
    row_step: int
    column_step: int
    values: tuple[Number, ...]


class Heat(Plain, frozen=True):
    """``cells`` row by row: mean of the finite elements of a cell, or None where there is none;
    ``marks``: 1 NaN, 2 +Inf, 4 -Inf among its elements, added up. ``low`` and ``high``: of the
    finite cells."""

    tensor: TensorName
    type: TensorType
    index: str
    rows: int
    columns: int
    cells: tuple[float | None, ...]
    marks: tuple[int, ...]
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
    within_1: int
    within_5: int
    equal_count: int
    count: int
    non_finite_disagreed: int


class Compared(Plain, frozen=True):
    """Both tensors and their difference over one plane, and numbers over the whole."""

    a: Table
    b: Table
    difference: Table
    heat: Heat
    distances: DistanceNumbers
    boundary: float


class OpTensor(Plain, frozen=True):
    """``kept``: whether the values can be had, else ``why`` they cannot; ``steps``: which ones."""

    io: Literal["input", "output"]
    slot: int
    type: TensorType
    statistics: StatisticNumbers | None
    kept: bool
    steps: tuple[int, ...]
    why: str = ""


class OpTensors(Plain, frozen=True):
    op: str
    step: int | None
    tensors: tuple[OpTensor, ...]
    sources: tuple[SourceLine, ...] = ()


AnyAnswer = Summary | Table | Heat | Compared | OpTensors


class Checked(Plain, frozen=True):
    """``judged`` tensors were evaluated, with ``hits`` new hits. ``missing`` tensors of step
    ``step`` are not available, such as ``examples``; the watchpoints ``later`` are evaluated when a
    step goes by only."""

    step: int
    judged: int
    hits: int
    missing: int
    examples: tuple[str, ...]
    later: tuple[int, ...]


question_decoder: Final = msgspec.msgpack.Decoder(AnyQuestion)
