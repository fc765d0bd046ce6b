"""Documents of commands that run a program."""

from __future__ import annotations

from typing import Any

from sonde.cli.documents.dumps import DumpDocument, KeptStepDocument
from sonde.cli.documents.findings import Document, LocatedFinding, Number
from sonde.core.finding import EvidenceStatus


class RaisedFrame(Document):
    file: str
    line: int | None
    function: str
    code: str | None


class ProgramException(Document):
    """What the program raised; the outermost frame first."""

    type: str
    message: str
    frames: list[RaisedFrame]


class KeptStepsDocument(Document):
    """The steps in the directory of a guard."""

    path: str
    steps: list[KeptStepDocument]


class RunDocument(Document):
    """``sonde run``: how the program ended, what was dumped, kept and found. ``dump``, ``guard``
    and ``findings`` are null unless the options asked for them."""

    program: list[str]
    exit_code: int
    exception: ProgramException | None
    dump: DumpDocument | None
    guard: KeptStepsDocument | None
    findings: list[LocatedFinding] | None


class RepeatedOp(Document):
    """The first op at which two runs differ."""

    kind: str
    status: EvidenceStatus
    step: int
    op: str
    type: str
    phase: str
    slots: list[str]
    source: dict[str, Any] | None
    told: str


class RepeatDocument(Document):
    """``sonde repeat``: are two runs of a program equal, bit for bit?"""

    program: list[str]
    equal: bool
    steps: list[int]
    tensors: int
    differing: int
    exit_codes: list[int]
    same_output: bool
    not_removed: list[str]
    first: RepeatedOp | None


class CompiledTotal(Document):
    kind: str
    count: int
    agreeing: int
    closer: str
    eager: Number | None
    interpreted: Number | None
    compiled: Number | None


class CompiledResult(Document):
    """One result of compiled code: its errors beside that which is allowed."""

    kind: str
    name: str
    dtype: str
    agrees: bool
    norm: Number | None
    eager: Number | None
    interpreted: Number | None
    compiled: Number | None
    allowed: Number | None
    not_finite: int


class WrongOpDocument(Document):
    op: str
    phase: str
    module: str | None
    dtype: str
    fault: str
    compiled: Number | None
    eager: Number | None
    allowed: Number | None
    source: str | None
    line: str | None
    shape: list[int]
    not_finite: int


class SuspectOp(Document):
    op: str
    module: str | None
    source: str | None
    line: str | None


class WrongTogether(Document):
    """Ops that are right one by one and wrong as the compiler has fused them."""

    phase: str
    ops: list[SuspectOp]


class CompiledGraph(Document):
    name: str
    backend: str
    agrees: bool
    random_ops: int
    ops: int
    ops_judged: int
    random_matched: bool
    comparisons: list[CompiledResult]
    wrong_op: WrongOpDocument | None
    wrong_together: WrongTogether | None
    problems: list[str]


class CompileCheckDocument(Document):
    """``sonde compile-check``: does the compiled code of a step compute the right values?"""

    step: int
    agrees: bool
    complete: bool
    totals: list[CompiledTotal]
    graphs: list[CompiledGraph]
    weights: list[CompiledResult]
    problems: list[str]


class TunedParameter(Document):
    name: str
    passed: str


class TuneCheckDocument(Document):
    """``sonde tune --check``: how the parameters are passed to the command."""

    parameters: list[TunedParameter]
    example: str
