"""What was observed of one training, as plain data: the input of the rules.

Steps are numbered from 0; a step ends with an optimizer's ``step()``. A source line is None where
no line of the user's own code was on the stack.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from sonde.core.graph import Source

Number = float | int | bool | str | None


@dataclass(slots=True)
class EvidenceEvent:
    """Something that happened once or several times in the same place, such as a load of own
    weights. ``subject`` is the module, parameter or file concerned, ``numbers`` what was measured
    the first time."""

    name: str
    step: int
    source: Source | None = None
    subject: str = ""
    numbers: dict[str, Number] = field(default_factory=dict)
    count: int = 1
    last_step: int = 0


@dataclass(slots=True)
class UpdateSample:
    """One optimizer step of one parameter, measured.

    Norms are Euclidean, in float64; NaN if a value was not finite. Those of weight and update are
    estimated from 4,096 values of a larger parameter. ``lost`` is the share of
    elements with a gradient other than zero that kept their value bit for bit, and ``zeros`` the
    share of gradient elements that are exactly zero. ``gradient`` is None if there was none.
    ``is_planned``: False if the step was measured only because the loss jumped.
    """

    step: int
    rate: float
    weight: float
    update: float
    gradient: float | None
    lost: float
    zeros: float
    is_planned: bool = True


FEWEST_WRITES = 2


@dataclass(slots=True)
class ParameterEvidence:
    """One parameter that an optimizer holds or that the loss reaches; ``position`` is its place in
    the optimizer, which is usually that in the network. ``loss`` is the class of the loss function
    that made it for itself, if one did. ``writes`` counts the graphs before which the program had
    changed it, of parameters that no optimizer holds. ``is_replaced``: another parameter has its
    name in the network, while the optimizer goes on with this one."""

    name: str
    module: str
    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool = True
    optimizer: str | None = None
    position: int = 0
    is_in_module: bool = True
    loss: str = ""
    reached: int = 0
    module_calls: int = 0
    sibling_calls: int = 0
    is_zero_at_start: bool = False
    has_equal_rows_at_start: bool = False
    is_zero_now: bool = False
    has_equal_rows_now: bool = False
    is_contiguous: bool = True
    writes: int = 0
    is_replaced: bool = False
    samples: list[UpdateSample] = field(default_factory=list)

    @property
    def is_written(self) -> bool:
        """Whether the program itself changes it: it is another one in later steps, although no
        step of the optimizer changes it (the codes of a quantiser, averaged weights, a copy of the
        weights that are trained)."""
        if self.optimizer is None:
            return self.writes >= FEWEST_WRITES
        weights = {sample.weight for sample in self.samples}
        return len(weights) > 1 and all(sample.update == 0 for sample in self.samples)


@dataclass(slots=True)
class OptimizerEvidence:
    """One optimizer: what it holds, how it was called.

    ``discarded`` counts backward passes whose gradients were cleared before a step, and
    ``steps_of_last`` the steps that had those of the last of several such passes of one line.
    ``uncleared`` counts steps whose gradients held those of the step before; ``cleared_before``
    steps whose gradients were all cleared after backward; ``state_keys`` the names of its state;
    ``variable`` the variable that held it where its first step was called.
    """

    name: str
    kind: str
    variable: str = ""
    created: Source | None = None
    stepped: Source | None = None
    backward: Source | None = None
    steps: int = 0
    uncleared: int = 0
    first_uncleared: int = 0
    cleared_before: int = 0
    cleared: Source | None = None
    discarded: int = 0
    steps_of_last: int = 0
    skipped: int = 0
    parameters: int = 0
    frozen: int = 0
    options: dict[str, Number] = field(default_factory=dict)
    state_keys: tuple[str, ...] = ()
    rates: list[float] = field(default_factory=list)


@dataclass(slots=True)
class SchedulerEvidence:
    """One scheduler: how often it was stepped, and the rates of its optimizer."""

    kind: str
    optimizer: str
    variable: str = ""
    options: dict[str, Number] = field(default_factory=dict)
    stepped: Source | None = None
    calls: int = 0
    calls_per_step: int = 0
    skipped_steps: int = 0
    first_rate: float = 0.0
    rates: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of the graph of a loss. ``name`` is that of autograd without ``Backward0``;
    ``inputs`` are the indexes of the nodes that computed its inputs; ``saved`` holds numbers that
    autograd kept (a dim, a reduction); ``is_direct``: the program itself called the op, no library
    did for it."""

    name: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...] | None
    dtype: str
    saved: dict[str, Number]
    source: Source | None
    parameter: str | None = None
    is_direct: bool = False


@dataclass(frozen=True, slots=True)
class LossGraph:
    """The graph of one loss; node 0 computed the loss."""

    step: int
    nodes: tuple[GraphNode, ...]

    def below(self, start: int) -> Iterator[int]:
        """The indexes of the nodes that ``start`` was computed from, nearest first."""
        seen = {start}
        waiting = [start]
        for index in waiting:
            for each in self.nodes[index].inputs:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
                    yield each

    def parameters_below(self, start: int, most: int = 4) -> list[str]:
        """Names of the nearest parameters that ``start`` was computed from."""
        found: list[str] = []
        for index in self.below(start):
            name = self.nodes[index].parameter
            if name is not None and name not in found:
                found.append(name)
                if len(found) == most:
                    break
        return found


@dataclass(slots=True)
class TrainingEvidence:
    """Everything observed of one training. Steps are counted from 0 where it was first observed;
    ``first_step``: the number of that step in the training's own log, after a resume."""

    steps: int = 0
    first_step: int = 0
    losses: list[float] = field(default_factory=list)
    optimizers: list[OptimizerEvidence] = field(default_factory=list)
    schedulers: list[SchedulerEvidence] = field(default_factory=list)
    parameters: list[ParameterEvidence] = field(default_factory=list)
    graphs: list[LossGraph] = field(default_factory=list)
    walks: int = 0
    events: list[EvidenceEvent] = field(default_factory=list)

    def named(self, name: str) -> list[EvidenceEvent]:
        """The events of this name, first first."""
        return sorted((each for each in self.events if each.name == name), key=lambda e: e.step)

    def first(self, name: str) -> EvidenceEvent | None:
        found = self.named(name)
        return found[0] if found else None

    def number(self, step: int) -> int:
        """The number of a step in the training's own log, as messages have it."""
        return self.first_step + step

    @property
    def has_bad_loss(self) -> bool:
        """Whether the loss of the last step is NaN or infinite."""
        return bool(self.losses) and not math.isfinite(self.losses[-1])

    @property
    def first_bad_loss(self) -> int | None:
        """The first step whose loss is NaN or infinite."""
        return next((n for n, loss in enumerate(self.losses) if not math.isfinite(loss)), None)

    def optimizer(self, name: str | None) -> OptimizerEvidence | None:
        return next((each for each in self.optimizers if each.name == name), None)
