"""One capture: who wants what, and the cheapest way to serve it.

The session stands between an adapter, which runs on the training thread and sees ops, and the
sinks. It shields the training: a sink that raises is switched off and reported once.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.selection import StepSet
from sonde.core.sink import OpCall, Sink, StepEnd, TensorView

logger = logging.getLogger("sonde.capture")


class Request(Protocol):
    """What one sink asks for."""

    @property
    def steps(self) -> StepSet: ...
    def wants_op(self, node: OpNode) -> bool: ...


@dataclass(slots=True, eq=False)
class Subscription:
    """A sink and what it asks for.

    ``op_failed`` is called when a wanted op raises. ``keeps_step`` says that the running step is
    worth keeping, however it ends.
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


def print_to_stderr(text: str) -> None:
    """One line to the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


@dataclass(slots=True)
class Session:
    """Fan-out of op calls to sinks. Used from the training thread only.

    ``generation`` changes whenever ``wants`` may answer otherwise. ``report`` shows one line to
    the person at the terminal.
    """

    subscriptions: list[Subscription]
    initial_step: int = 0
    report: Callable[[str], None] = print_to_stderr
    step: int = field(init=False, default=0)
    generation: int = field(init=False, default=0)
    _active: tuple[Subscription, ...] = field(init=False, default=())
    _last_active: tuple[Subscription, ...] = field(init=False, default=())
    _said: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.step = self.initial_step

    def wanted(self, step: int) -> bool:
        """Whether anybody wants anything of ``step``."""
        return any(
            step in subscription.request.steps and not subscription.is_broken
            for subscription in self.subscriptions
        )

    def refresh(self) -> None:
        """What is wanted has changed: ask every request again."""
        self.generation += 1

    def begin_step(self) -> None:
        active = tuple(
            subscription
            for subscription in self.subscriptions
            if self.step in subscription.request.steps and not subscription.is_broken
        )
        if active != self._last_active:
            self._last_active = active
            self.generation += 1
        self._active = active
        for subscription in self._active:
            sink = subscription.sink
            self._shield(subscription, partial(sink.begin_step, self.step))

    def wants(self, node: OpNode) -> Wants | None:
        """Who wants ``node`` in the running step; None if nobody does."""
        found: list[Subscription] = []
        for subscription in self._active:
            if not subscription.is_broken:
                try:
                    if subscription.request.wants_op(node):
                        found.append(subscription)
                except Exception as error:
                    self._switch_off(subscription, error)
        return Wants(tuple(found)) if found else None

    def write(self, wants: Wants, call: OpCall) -> None:
        for subscription in wants.subscriptions:
            if not subscription.is_broken:
                try:
                    subscription.sink.write(call)
                except Exception as error:
                    self._switch_off(subscription, error)

    def has(self, wants: Wants, view: TensorView) -> bool:
        """Whether every sink that wants the op has had these values before in this step."""
        try:
            return all(subscription.sink.has(view) for subscription in wants.subscriptions)
        except Exception:
            # The sink will meet its trouble again when it is asked to write.
            return False

    def op_failed(self, wants: Wants, call: OpCall, raised: BaseException) -> None:
        for subscription in wants.subscriptions:
            told = subscription.op_failed
            if told is not None:
                self._shield(subscription, partial(told, call, raised))

    def end_step(self, end: StepEnd) -> None:
        for subscription in self._active:
            sink = subscription.sink
            self._shield(subscription, partial(sink.end_step, end))
        self._active = ()
        self.step += 1

    def keeps_step(self) -> bool:
        """Whether a sink has found something in the running step that must not be dropped."""
        return any(
            subscription.keeps_step is not None and subscription.keeps_step()
            for subscription in self._active
            if not subscription.is_broken
        )

    def drop_step(self) -> None:
        """What was written of the running step is not worth keeping."""
        for subscription in self._active:
            self._shield(subscription, subscription.sink.drop_step)
        self._active = ()

    def skip_step(self) -> None:
        """A step passed of which nothing was wanted, or in which nothing ran."""
        self.drop_step()
        self.step += 1

    def switch_off(self) -> None:
        """Observation has failed: nothing more is wanted, what is written stays."""
        for subscription in self.subscriptions:
            subscription.is_broken = True
        self.generation += 1

    def close(self) -> None:
        for subscription in self.subscriptions:
            try:
                subscription.sink.close()
            except Exception as error:
                self._switch_off(subscription, error)

    def _shield(self, subscription: Subscription, action: Callable[[], None]) -> None:
        if subscription.is_broken:
            return
        try:
            action()
        except Exception as error:
            self._switch_off(subscription, error)

    def _switch_off(self, subscription: Subscription, error: Exception) -> None:
        """Say once what failed and go on without it. The training must not notice."""
        if subscription.is_broken:
            return
        subscription.is_broken = True
        self.generation += 1
        if isinstance(error, SondeError):
            # Several sinks of one dump stop for one reason: it is said once.
            if error.slug not in self._said:
                self._said.add(error.slug)
                self.report(f"sonde: {error}")
        else:
            self.report(
                f"sonde: {type(subscription.sink).__name__} failed and is switched off, "
                f"training goes on: {type(error).__name__}: {error} [sink-failed]"
            )
        logger.debug("%s", "".join(traceback.format_exception(error)))
