"""One capture: which sinks want which ops.

The session passes the ops that an adapter observes, on the training thread, to the sinks. It
protects the training: a sink that raises is disabled and reported once.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from sonde.core.coverage import Coverage, Gap
from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.interruption import pass_on, raise_interruption
from sonde.core.selection import StepSet
from sonde.core.sink import OpCall, Sink, StepEnd, TensorView
from sonde.core.text.problem_line import ProblemLine
from sonde.logs import say

logger = logging.getLogger("sonde.capture")


class Request(Protocol):
    """The steps and ops that one sink wants."""

    @property
    def steps(self) -> StepSet: ...
    def wants_op(self, node: OpNode) -> bool: ...


@runtime_checkable
class UniformRequest(Protocol):
    """A request that may have the same answer for every op: ``wants_every_op`` returns it, or None
    if the answer depends on the op."""

    def wants_every_op(self) -> bool | None: ...


@dataclass(slots=True, eq=False)
class Subscription:
    """A sink and its request.

    ``op_failed`` is called when a wanted op raises. ``keeps_step`` returns True if the files of the
    running step must be kept even if the step does not end normally.
    """

    sink: Sink
    request: Request
    op_failed: Callable[[OpCall, BaseException], None] | None = None
    keeps_step: Callable[[], bool] | None = None
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class Wants:
    """The subscriptions that want one op in the running step."""

    subscriptions: tuple[Subscription, ...]


@dataclass(slots=True)
class Session:
    """Passes op calls to the sinks that want them. Used from the training thread only.

    ``generation`` changes whenever the answers of ``wants`` may change. ``report`` prints one
    line for the user.
    """

    subscriptions: list[Subscription]
    initial_step: int = 0
    report: Callable[[str], None] = say
    coverage: Coverage = field(default_factory=Coverage)
    step: int = field(init=False, default=0)
    generation: int = field(init=False, default=0)
    _active: tuple[Subscription, ...] = field(init=False, default=())
    _last_active: tuple[Subscription, ...] = field(init=False, default=())
    _reported: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.begin_at(self.initial_step)

    def begin_at(self, step: int) -> None:
        """Number the first step ``step``."""
        self.step = self.coverage.first_step = self.coverage.next_step = step

    def wanted(self, step: int) -> bool:
        """Whether any sink wants ops of ``step``."""
        return bool(self._wanting(step))

    def _wanting(self, step: int) -> tuple[Subscription, ...]:
        return tuple(
            subscription
            for subscription in self.subscriptions
            if step in subscription.request.steps and not subscription.is_broken
        )

    def refresh(self) -> None:
        """Ask every request again, because one of them has changed."""
        self.generation += 1

    def begin_step(self) -> None:
        active = self._wanting(self.step)
        if active != self._last_active:
            self._last_active = active
            self.generation += 1
        self._active = active
        for subscription in self._active:
            self._shield(subscription, subscription.sink.begin_step, self.step)

    @property
    def is_step_running(self) -> bool:
        """Whether a step has begun that some sink wants, and has not ended."""
        return bool(self._active)

    def wants(self, node: OpNode) -> Wants | None:
        """The sinks that want ``node`` in the running step; None if no sink does."""
        found: list[Subscription] = []
        for subscription in self._active:
            if not subscription.is_broken:
                try:
                    if subscription.request.wants_op(node):
                        found.append(subscription)
                except Exception as error:
                    pass_on(error)
                    self._switch_off(subscription, error)
        return Wants(tuple(found)) if found else None

    def consumer_of_every_op(self) -> Subscription | None:
        """The only sink that wants anything in the running step, if it wants every op."""
        found: list[Subscription] = []
        for subscription in self._active:
            request = subscription.request
            if subscription.is_broken:
                continue
            answer = request.wants_every_op() if isinstance(request, UniformRequest) else None
            if answer is None:
                return None
            if answer:
                found.append(subscription)
        return found[0] if len(found) == 1 else None

    def write(self, wants: Wants, call: OpCall) -> None:
        for subscription in wants.subscriptions:
            self._shield(subscription, subscription.sink.write, call)

    def has(self, wants: Wants, view: TensorView) -> bool:
        """Whether every sink that wants the op already has these values from this step."""
        try:
            return all(subscription.sink.has(view) for subscription in wants.subscriptions)
        except Exception as error:
            pass_on(error)
            # The sink will raise again in ``write``, which reports it.
            return False

    def op_failed(self, wants: Wants, call: OpCall, raised: BaseException) -> None:
        for subscription in wants.subscriptions:
            if subscription.op_failed is not None:
                self._shield(subscription, subscription.op_failed, call, raised)

    def end_step(self, end: StepEnd) -> None:
        for subscription in self._active:
            self._shield(subscription, subscription.sink.end_step, end)
        self._active = ()
        self._count_step()
        if end.complete:
            self.coverage.steps += 1
        else:
            self.coverage.incomplete_steps += 1

    def keeps_step(self) -> bool:
        """Whether a sink has found something in the running step that must not be dropped."""
        return any(
            subscription.keeps_step is not None and subscription.keeps_step()
            for subscription in self._active
            if not subscription.is_broken
        )

    def drop_step(self) -> None:
        """Discard the files of the running step."""
        for subscription in self._active:
            self._shield(subscription, subscription.sink.drop_step)
        self._active = ()

    def skip_step(self) -> None:
        """Count a step in which nothing was wanted or nothing ran."""
        self.drop_step()
        self._count_step()

    def _count_step(self) -> None:
        self.step += 1
        self.coverage.next_step = self.step

    def switch_off(self) -> None:
        """Stop all sinks after observation has failed; files already written stay."""
        for subscription in self.subscriptions:
            subscription.is_broken = True
        self.generation += 1

    def close(self) -> None:
        for subscription in self.subscriptions:
            try:
                subscription.sink.close()
            except Exception as error:
                raise_interruption(error)
                self._switch_off(subscription, error)

    def _shield(
        self, subscription: Subscription, action: Callable[..., None], *arguments: object
    ) -> None:
        """Call a method of a sink unless the sink is broken; disable the sink if it raises.

        What is not a failure of the sink reaches the adapter, which drops the running step.
        """
        if subscription.is_broken:
            return
        try:
            action(*arguments)
        except Exception as error:
            pass_on(error)
            self._switch_off(subscription, error)

    def _switch_off(self, subscription: Subscription, error: Exception) -> None:
        """Disable a sink and report its error once; the training goes on."""
        if subscription.is_broken:
            return
        subscription.is_broken = True
        self.generation += 1
        self.coverage.add(Gap("sink_failed", f"{type(error).__name__}: {error}", self.step))
        if isinstance(error, SondeError):
            # Several sinks of one dump stop for the same reason: report it once.
            if error.slug not in self._reported:
                self._reported.add(error.slug)
                self.report(ProblemLine.about(error, "sonde: "))
        else:
            text = (
                f"sonde: {type(subscription.sink).__name__} failed and is switched off, "
                f"training goes on: {type(error).__name__}: {error}"
            )
            self.report(ProblemLine(text, slug="sink-failed"))
        logger.debug("%s", "".join(traceback.format_exception(error)))
