"""``attach`` for a trainer of Ignite.

from sonde.integrations.ignite import attach

attach(trainer, diagnose=True)
"""

from __future__ import annotations

from typing import Any

from sonde.integrations.missing_library import MissingLibraryError
from sonde.integrations.observed_training import ObservedTraining, on_any_rank

try:
    import ignite.distributed as idist
    from ignite.engine import Engine, Events
except ImportError as _error:
    raise MissingLibraryError("ignite", "ignite", _error) from None


def attach(engine: Engine, **options: Any) -> ObservedTraining:
    """Guard and diagnose what ``engine`` trains, whenever it runs.

    The options are those of `ObservedTraining`, which is returned: ``findings`` has what was found.
    ``engine.state.metrics["sonde_findings"]`` is their number, which Ignite's loggers log. With
    ``on_trigger="stop"`` the engine terminates after the iteration, on all ranks if one triggers.
    """
    training = ObservedTraining(**options)
    _Handlers(training).add_to(engine)
    return training


class _Handlers:
    """What is done at the events of an engine."""

    def __init__(self, training: ObservedTraining) -> None:
        self._training = training

    def add_to(self, engine: Engine) -> None:
        engine.add_event_handler(Events.STARTED, self._started)
        engine.add_event_handler(Events.ITERATION_COMPLETED, self._iteration_completed)
        for event in (Events.COMPLETED, Events.TERMINATE, Events.INTERRUPT):
            engine.add_event_handler(event, self._ended)
        engine.add_event_handler(Events.EXCEPTION_RAISED, self._raised)

    def _started(self, engine: Engine) -> None:
        # Iterations are counted from 1, and several of them may make one step.
        state = engine.state
        self._training.begin(step_name=lambda step: f" (Ignite's iteration {state.iteration})")

    def _iteration_completed(self, engine: Engine) -> None:
        self._count(engine)
        if self._training.stops_any_rank(on_any_rank(idist.device())):
            engine.terminate()

    def _ended(self, engine: Engine) -> None:
        self._training.end()
        self._count(engine)

    def _raised(self, engine: Engine, error: BaseException) -> None:
        self._training.end(error)
        self._count(engine)
        # Ignite raises an exception only where no handler is registered for it.
        handlers = getattr(engine, "_event_handlers", {}).get(Events.EXCEPTION_RAISED, ())
        if len(handlers) == 1:
            raise error

    def _count(self, engine: Engine) -> None:
        engine.state.metrics["sonde_findings"] = len(self._training.findings)
