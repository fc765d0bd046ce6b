"""Documents of what is on disk: dumps, their statistics, and the steps that a guard has kept."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from sonde.cli.documents.findings import Document, LineDocument, LocatedFinding, Number


class DumpProblemDocument(Document):
    """A file that could not be read, or something of the run that was not observed."""

    path: str
    message: str


class ShownGraph(Document):
    """A graph and the steps that ran it; ``leaves`` are parameters, inputs and constants."""

    id: int
    name: str
    ops: int
    leaves: int
    steps: list[int]


class ShownStep(Document):
    rank: int
    net: str
    graph: int
    step: int
    tensors: int
    bytes: int


class OverflowOp(Document):
    """An op with NaN or Inf in its outputs; ``inputs`` and ``outputs`` are statistics."""

    op: str
    role: Literal["producer", "carrier"]
    phase: str
    source: LineDocument | None
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    origin: str | None
    origin_step: int | None
    by_argument: str | None


class OverflowStep(Document):
    rank: int
    net: str
    graph: int
    step: int
    ops: list[OverflowOp]


class ShownCapturedStep(Document):
    rank: int
    step: int
    path: str
    bytes: int
    is_computed: bool


class DumpDocument(Document):
    """``sonde show DIR``. A dump of captured steps has ``captured_steps`` in place of ``graphs``,
    ``steps`` and ``overflow``; a run that dumped nothing has only its path and no steps."""

    path: str
    steps: list[ShownStep] | UnsetType = UNSET
    writer: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    ranks: list[int] | UnsetType = UNSET
    nets: list[str] | UnsetType = UNSET
    graphs: list[ShownGraph] | UnsetType = UNSET
    overflow: list[OverflowStep] | UnsetType = UNSET
    captured_steps: list[ShownCapturedStep] | UnsetType = UNSET
    findings: list[LocatedFinding] | UnsetType | None = UNSET
    problems: list[DumpProblemDocument] | UnsetType = UNSET


class ShownElements(Document):
    """Elements of a tensor, row by row; ``index`` says which."""

    index: str
    values: list[Number]


class TensorEntry(Document):
    """``problem``: why the file could not be read; dtype, shape and size are null then.
    ``elements``: with ``--values``."""

    rank: int
    net: str
    graph: int
    step: int
    order: int
    op: str
    type: str
    phase: str | None
    io: Literal["input", "output"]
    slot: int
    dtype: str | None
    shape: list[int] | None
    bytes: int | None
    file: str | None
    source: LineDocument | None
    statistics: dict[str, Number | None]
    problem: str | None
    elements: ShownElements | UnsetType | None = UNSET


class TensorsDocument(Document):
    """``sonde show DIR --step --op --io``; ``more``: how many others ``--limit`` left out."""

    path: str
    tensors: list[TensorEntry]
    more: int
    problems: list[DumpProblemDocument]


class ShownTrend(Document):
    layer: str
    first: Number | None
    last: Number | None
    factor: Number | None
    not_finite_since: int | None
    values: list[Number | None]


class TrendDocument(Document):
    """``sonde show DIR --trend``: a value per step of each layer, the greatest change first."""

    path: str
    statistic: str
    steps: list[int]
    layers: list[ShownTrend]


class TriggerDocument(Document):
    kind: str
    text: str


class KeptStepDocument(Document):
    """A step that a guard has kept. ``unreplayable``: kind, subject and detail of what a replay
    cannot repeat. ``problem``: why the step cannot be read; the other fields are null then."""

    path: str
    step: int | None
    rank: int | None
    trigger: TriggerDocument | None
    signals: dict[str, Any] | None
    unreplayable: list[list[str]]
    problem: str | None


class SignalsDocument(Document):
    """A column per signal, with a value per step; ``gradients``: a row per step, with a norm per
    parameter."""

    rank: int
    damaged: int
    columns: dict[str, list[Number | None]]
    parameters: list[str]
    gradients: list[list[Number]]


class GuardDocument(Document):
    """``sonde show DIR`` for a directory of ``sonde run --guard``."""

    path: str
    signals: SignalsDocument | None
    steps: list[KeptStepDocument]
    findings: list[LocatedFinding] | None


class ShownScalar(Document):
    first_step: int
    last_step: int
    count: int
    last: Number
    minimum: Number
    maximum: Number


class SummaryDocument(Document):
    """``sonde show DIR`` for the directory of a SummaryCollector."""

    path: str
    status: str
    started: str
    updated: str
    step: int
    scalars: dict[str, ShownScalar]
    histograms: dict[str, dict[str, Any]]
    images: dict[str, dict[str, Any]]
    texts: dict[str, dict[str, Any]]
    graph: str
    lineage: dict[str, Any]
    files: list[dict[str, Any]]


class TablesDocument(Document):
    """``sonde query DIR`` without SQL: the tables and what they have."""

    path: str
    first_step: int
    last_step: int
    ranks: list[int]
    tables: dict[str, str]
    columns: dict[str, list[str]]


class PrunedRank(Document):
    rank: int
    sorted_files: int
    thinned_files: int
    bytes_before: int
    bytes_after: int


class PrunedDocument(Document):
    """``sonde dump prune``."""

    path: str
    ranks: list[PrunedRank]


class ConvertedStep(Document):
    rank: int
    step: int


class ConvertedDocument(Document):
    """``sonde convert``; ``device_formats``: layouts that were kept, because they are not known."""

    path: str
    tensors: int
    bytes: int
    steps: list[ConvertedStep]
    device_formats: list[str]
    problems: list[str]


class CheckedDocument(Document):
    """``sonde view --check``: the hits of watchpoints, in execution order."""

    dump: str
    headline: str | None
    total: int
    dropped: int
    hits: list[dict[str, Any]]
    problems: list[str]
    damaged: list[str]
    warnings: list[dict[str, Any]]
    unobserved: list[str]
