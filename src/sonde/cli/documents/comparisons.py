"""Documents of ``sonde compare``, ``sonde loss``, ``sonde params`` and ``sonde ckpt``."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from sonde.cli.documents.findings import Document, FindingDocument, Number
from sonde.core.finding import EvidenceStatus, Severity


class DivergenceDocument(Document):
    """The first pair of ops whose output differs although the inputs agree."""

    step: int
    rank: int
    order: int
    a: str
    b: str
    type_a: str
    type_b: str
    phase: str
    source_a: dict[str, Any] | None
    source_b: dict[str, Any] | None
    tolerance: Number
    allowed: Number
    input_error: Number
    ranks: list[int]
    cause: str
    confidence: Any
    rule: str
    status: EvidenceStatus
    advice: str
    tensor_a: str
    tensor_b: str
    error: Number
    distances: dict[str, Number] | None
    inheritors: int


class PairDocument(Document):
    """Two ops that compute the same; docs/compare.md explains the fields."""

    step: int
    rank: int
    order: int
    a: str
    b: str
    type_a: str
    type_b: str
    kind: str
    phase: str
    how: str
    members_a: list[str]
    members_b: list[str]
    source_a: dict[str, Any] | None
    source_b: dict[str, Any] | None
    tensors: list[dict[str, Any]]
    status: str
    error: Number
    input_error: Number
    tolerance: Number
    allowed: Number
    notes: list[str]
    reads: list[int]
    fault: dict[str, Any] | None


class UnpairedDocument(Document):
    op: str
    step: int
    rank: int
    side: Literal["a", "b"]
    type: str
    phase: str
    source: dict[str, Any] | None
    reason: str


class ComparisonDocument(Document):
    """``sonde compare``. With ``--json-file``, ``error`` says why runs are not comparable at all;
    only ``pairs``, ``unpaired`` and ``first_divergence`` are there then, and are empty."""

    verdict: Literal["aligned", "diverged", "incomparable"]
    first_divergence: DivergenceDocument | None
    pairs: list[PairDocument]
    unpaired: list[UnpairedDocument]
    a: dict[str, Any] | UnsetType = UNSET
    b: dict[str, Any] | UnsetType = UNSET
    steps: list[int] | UnsetType = UNSET
    losses: list[dict[str, Any]] | UnsetType = UNSET
    parts: list[dict[str, Any]] | UnsetType = UNSET
    growth: list[dict[str, Any]] | UnsetType = UNSET
    reasons: list[str] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    by: Literal["values", "statistics", "both"] | UnsetType = UNSET
    error: str | UnsetType = UNSET


class LossStep(Document):
    step: int
    a: Number
    b: Number
    relative_error: Number
    out: bool


class LossDocument(Document):
    """``sonde loss``: two loss curves, step by step."""

    a: str
    b: str
    verdict: str
    status: EvidenceStatus | None
    aligned: bool
    rtol: Number
    atol: Number
    by: str
    headline: str
    reasoning: list[str]
    notes: list[str]
    first_out_of_tolerance: dict[str, Any] | None
    out_of_tolerance: int
    max_relative_error: Number
    drift: dict[str, Any]
    first_not_finite: dict[str, int | None]
    steps: list[LossStep]


class ParameterDocument(Document):
    name: str
    dtype: str
    shape: list[int]
    count: int
    role: str
    trainable: bool | None
    statistics: dict[str, Number | None]


class ParametersDocument(Document):
    """``sonde params A``, and ``sonde show`` for a checkpoint."""

    path: str
    format: str
    parameters: list[ParameterDocument]
    count: int
    trainable: int
    elements: int
    trainable_elements: int


class MisshapedDocument(Document):
    a: str
    b: str
    shape_a: list[int]
    shape_b: list[int]


class ParameterPairDocument(Document):
    a: str
    b: str
    how: str
    axes: list[int] | None
    reshaped: bool
    equal: bool | None
    same_statistics: bool | None
    equal_when_transposed: list[int] | None
    max_abs_error: Number | None
    relative_l2: Number | None
    notes: list[str]


class FlatParameterDocument(Document):
    flat: str
    parts: list[str]
    flat_in: Literal["a", "b"]


class MatchedParametersDocument(Document):
    """``sonde params A B``."""

    a: ParametersDocument
    b: ParametersDocument
    complete: bool
    pairs: list[ParameterPairDocument]
    flat: list[FlatParameterDocument]
    misshaped: list[MisshapedDocument]
    only_a: list[str]
    only_b: list[str]
    counters: list[str]
    state_a: list[str]
    state_b: list[str]


class WeightChangeDocument(Document):
    a: str
    b: str
    how: str
    role: str
    equal: bool
    dtype_a: str
    dtype_b: str
    shape: list[int]
    non_finite_a: int | None
    non_finite_b: int | None
    distances: dict[str, Any] | None


class CheckpointDiffDocument(Document):
    """``sonde ckpt diff``: the most changed weight first."""

    a: str
    b: str
    equal: bool
    changed: int
    unchanged: list[str]
    stuck: list[str]
    weights: list[WeightChangeDocument]
    misshaped: list[MisshapedDocument]
    only_a: list[str]
    only_b: list[str]
    counters: list[str]
    state_a: list[str]
    state_b: list[str]


class WeightFinding(FindingDocument, forbid_unknown_fields=False):
    """A finding about a weight; it also has what was measured as fields of its own."""

    rule: str
    severity: Severity


class CheckpointCheckDocument(Document):
    """``sonde ckpt check``."""

    path: str
    format: str
    weights: int
    elements: int
    findings: list[WeightFinding]


class CheckpointConvertDocument(Document):
    """``sonde ckpt convert``: the new name of each weight; ``dropped`` have no counterpart."""

    a: str
    b: str
    to: str
    weights: int
    names: dict[str, str]
    dropped: list[str]
