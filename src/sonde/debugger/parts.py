"""The parts that the debugger of one rank consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sonde.core.errors import SondeError
from sonde.debugger.control import PauseControl, RankState
from sonde.debugger.hit_detection import HitDetection
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.steps import SpeedMeasurement
from sonde.debugger.trainee import Trainee
from sonde.debugger.values.cache import ValueRecorder
from sonde.debugger.values.graphs import GraphRegistry
from sonde.debugger.values.lookup import TensorLookup
from sonde.debugger.values.previous import PreviousValues
from sonde.debugger.values.recorded_ops import RecordedOps
from sonde.wire.shapes import Metadata

Notify = Callable[[str, str], None]
"""Show a line on the page: the slug of a message, and its text."""


@dataclass(frozen=True, slots=True, eq=False)
class RankParts:
    """Shared by the debugger, its pauses and its controller. Each part alone changes its fields;
    all are used from the training thread."""

    trainee: Trainee
    state: RankState
    control: PauseControl
    graphs: GraphRegistry
    previous: PreviousValues
    watching: HitDetection
    recorder: ValueRecorder
    lookup: TensorLookup
    speed: SpeedMeasurement
    recorded: RecordedOps

    @classmethod
    def build(
        cls,
        options: DebuggerOptions,
        metadata: Metadata,
        trainee: Trainee,
        *,
        name: str,
        step: int,
        notify: Notify,
    ) -> RankParts:
        """The parts of a rank whose graphs are called ``name`` and whose first step is ``step``."""

        def report_watchpoint(error: SondeError) -> None:
            notify(error.slug, f"a watchpoint is disabled: {error.message}")

        state = RankState(step)
        graphs = GraphRegistry(name)
        previous = PreviousValues(
            trainee, options.budget_bytes, lambda text: notify("debugger-budget", text)
        )
        recorder = ValueRecorder(options.budget_bytes)
        return cls(
            trainee,
            state,
            PauseControl(),
            graphs,
            previous,
            HitDetection(metadata.rank, trainee, previous, graphs, report_watchpoint),
            recorder,
            TensorLookup(trainee, state, graphs, recorder, previous),
            SpeedMeasurement(),
            RecordedOps(),
        )
