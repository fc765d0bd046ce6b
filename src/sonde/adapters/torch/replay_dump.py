"""Executes a captured step under the ordinary capture: a dump of it, and its debugging."""

from __future__ import annotations

from dataclasses import replace

from sonde.adapters.torch.attach import attach, end_step, running_adapter
from sonde.adapters.torch.replay.execution import Execution, execute
from sonde.adapters.torch.replay.named_roots import named_roots
from sonde.adapters.torch.replay.optimizer_again import step_optimizer
from sonde.adapters.torch.replay.questions.step_replay import StepReplay, check_ran
from sonde.adapters.torch.replay.run_again import event_lines
from sonde.adapters.torch.replay.saved_state import SavedState
from sonde.adapters.torch.replay.step_record import Event, StepRecord
from sonde.capture.config import CaptureConfig


def dump_step(replaying: StepReplay, config: CaptureConfig) -> Execution:
    """Write the dump that ``config`` asks for, of this one step."""
    manifest = replaying.step.manifest
    config = replace(config, initial_step=manifest.step)
    record = replaying.record()
    with attach(config, starts_at_once=True, step_by="manual", rank=manifest.rank):
        done = execute_observed(record)
    check_ran(done, replaying.step)
    return done


def execute_observed(record: StepRecord) -> Execution:
    """Execute a step once in the capture that runs, and end the step. The optimizer steps, too, if
    its state was kept."""
    adapter = running_adapter()
    roots = named_roots(record)  # the adapter keeps no module alive
    if adapter is not None:
        for name, root in roots.items():
            adapter.name_root(name, root)

    def begin(event: Event | None) -> None:
        if adapter is not None:
            adapter.observer.learner.outer = event_lines(event)

    problem = ""

    def at_end(saved: SavedState) -> None:
        nonlocal problem
        if record.has_optimizer_state:
            problem = step_optimizer(record, saved)

    done = execute(record, begin_event=begin, at_end=at_end, hides_earlier=True)
    done.optimizer_problem = problem
    end_step()
    return done
