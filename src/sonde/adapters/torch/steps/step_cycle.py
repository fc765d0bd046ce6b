"""Begins and ends the steps of one capture."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sonde.adapters.torch.compiled.gate import CompilerWatch
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.eager.observation_switch import ObservationState, ObservationSwitch
from sonde.adapters.torch.eager.op_tree import Structures
from sonde.adapters.torch.eager.optimizer_skip import OptimizerSkip
from sonde.adapters.torch.listener import ShieldedListener
from sonde.adapters.torch.steps.novelty import Novelty, StepTotals
from sonde.capture.session import Session
from sonde.core.graph import Graph
from sonde.core.sink import StepEnd
from sonde.core.text.number_text import duration

_log = logging.getLogger("sonde.capture")


@dataclass(slots=True, eq=False)
class StepCycle:
    """Observes the steps that the session wants and hands their graphs to it.

    ``ended`` is called at the end of every step.
    Used from the training thread only; in a forked child it does nothing.
    """

    _session: Session
    _observer: Observer
    _structures: Structures
    _scopes: ScopeRegistry
    _switch: ObservationSwitch
    _skip: OptimizerSkip
    _compiler: CompilerWatch
    _listener: ShieldedListener
    _ended: Callable[[], None]
    has_completed_step: bool = False
    _novelty: Novelty = field(default_factory=Novelty)
    _pid: int = field(default_factory=os.getpid)
    _began: float = field(default_factory=time.perf_counter)
    _thread_began: float = field(default_factory=time.thread_time)

    def begin(self) -> None:
        """Switch observation on or off for the step that starts now."""
        switch = self._switch
        is_broken = switch.state is ObservationState.BROKEN
        wanted = self._session.wanted(self._session.step) and not is_broken
        if wanted and not switch.is_observing:
            switch.start()
        elif not wanted and switch.is_observing:
            switch.stop()
        # Ops that a signal handler runs meanwhile belong to no step: the sinks still have the last.
        self._observer.is_suspended = True
        if wanted:
            self._observer.begin_step()
        self._compiler.begin_step(wanted=wanted)
        self._observer.is_suspended = not wanted
        self._began = time.perf_counter()
        _log.debug("step %d begins; %s", self._session.step, "observed" if wanted else "not wanted")

    @property
    def has_begun(self) -> bool:
        """Whether a step has ended, or ops of a network were observed in the first one."""
        default = self._scopes.default
        ops = self._observer.last.path() if self._switch.is_observing else ()
        return self.has_completed_step or any(each.scope is not default for each in ops)

    def begin_at(self, step: int) -> None:
        """Begin the first step again, as number ``step``; what was observed of it is dropped."""
        self._session.drop_step()
        self._session.begin_at(step)
        if self._switch.is_observing:
            self._observer.end_step()
        self.begin()

    def end(self) -> None:
        """End the running step, and begin the next."""
        if os.getpid() != self._pid:
            return
        self._ended()
        if _log.isEnabledFor(logging.INFO):
            self._log_end()
        self._observer.evaluations.report_nan()
        if self._switch.state is ObservationState.BROKEN:
            self._switch.clean_up()
            self._session.coverage.unobserved_steps += 1
            self._listener.step_ended()
            return
        # A signal handler may run ops between the functions below: they belong to no step.
        self._observer.is_suspended = True
        if self._observer.is_interrupted:
            self._drop()
        elif self._switch.is_observing:
            self._skip.ends()
            self._hand_over(is_complete=True)
        else:
            self._session.coverage.unobserved_steps += 1
            self._session.skip_step()
        self._observer.begin_at_once()
        self.has_completed_step = True
        self._listener.step_ended()
        self.begin()

    def backward_began(self) -> None:
        """Tell the user of a long step in time: a backward pass begins in it."""
        if os.getpid() == self._pid and self._switch.is_observing:
            line = self._novelty.step_runs(self._work())
            if line is not None:
                self._session.report(line)

    def _work(self) -> StepTotals:
        """What was done since the start; the imports before it took time, too."""
        observer, seconds = self._observer, time.thread_time() - self._thread_began
        learned = self._structures.learned
        return StepTotals(learned, observer.ops_at_call_sites, observer.ops, seconds)

    def _log_end(self) -> None:
        seconds = duration(time.perf_counter() - self._began)
        if self._switch.is_observing:
            ops, learned = len(self._observer.last.path()), self._structures.learned
            _log.info(
                "step %d ended after %s: %d ops observed; %d ops learned so far",
                self._session.step,
                seconds,
                ops,
                learned,
            )
        else:
            _log.info("step %d ended after %s: not observed", self._session.step, seconds)

    def close(self) -> None:
        """End the capture: the ops after the last step are an incomplete step if a network ran
        among them, else they are dropped."""
        if os.getpid() != self._pid or not self._switch.is_observing:
            return
        self._observer.evaluations.report_nan()
        if self._observer.is_interrupted:
            self._drop()
            return
        if not self._session.keeps_step():
            last = self._observer.last
            if last.parent is None:
                return
            default = self._scopes.default
            if self.has_completed_step and all(each.scope is default for each in last.path()):
                self._session.drop_step()
                return
        self._skip.forget()
        self._hand_over(is_complete=False)

    def _drop(self) -> None:
        """Drop a step that was interrupted, unless a sink found something that must be kept.

        Observation is installed again: it may have been interrupted while it was being installed.
        """
        self._skip.forget()
        if self._session.keeps_step():
            last = self._observer.last
            graph = self._structures.graph_at(last, self._observer.emitter.raisers)
            self._session.end_step(StepEnd(self._session.step, graph, False, ()))
        else:
            self._session.coverage.unobserved_steps += 1
            self._session.skip_step()
        self._observer.drop_step()
        if self._switch.is_observing:
            self._switch.stop()

    def _hand_over(self, *, is_complete: bool) -> None:
        """Give the graph of the step that ends to the session."""
        session, observer = self._session, self._observer
        is_kept = session.keeps_step()
        if observer.has_ops or is_kept:
            observer.learn_if_repeated()
            raisers = observer.emitter.raisers if is_kept else ()
            has_parts = observer.has_run_graph
            parts = self._structures.parts_at(observer.last) if has_parts else ()

            def graph() -> Graph:
                return self._structures.graph_at(observer.last, raisers)

            # Graphs are numbered in the order of steps, except those that nothing may ask for.
            made = graph() if observer.is_learned else graph
            session.end_step(StepEnd(session.step, made, is_complete, parts))
            line = self._novelty.step_ended(self._work())
            if line is not None:
                session.report(line)
        else:
            session.skip_step()
        observer.end_step()
