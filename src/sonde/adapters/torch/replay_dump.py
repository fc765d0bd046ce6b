"""Executes a captured step under the ordinary capture: a dump of it, and its debugging."""

from __future__ import annotations

from dataclasses import replace

from sonde.adapters.torch.attach import attach, end_step, running_adapter
from sonde.adapters.torch.replay.execution import Execution, execute
from sonde.adapters.torch.replay.questions.step_replay import StepReplay, check_ran
from sonde.adapters.torch.replay.run_again import event_lines
from sonde.adapters.torch.replay.step_record import Event, StepRecord
from sonde.capture.config import CaptureConfig


def dump_step(replaying: StepReplay, config: CaptureConfig) -> None:
    """Write the dump that ``config`` asks for, of this one step."""
    manifest = replaying.step.manifest
    config = replace(config, initial_step=manifest.step)
    record = replaying.record()
    with attach(config, starts_at_once=True, step_by="manual", rank=manifest.rank):
        done = execute_observed(record)
    check_ran(done, replaying.step)


def execute_observed(record: StepRecord) -> Execution:
    """Execute a step once in the capture that runs, and end the step."""
    adapter = running_adapter()

    def begin(event: Event | None) -> None:
        if adapter is not None:
            adapter.observer.learner.outer = event_lines(event)

    done = execute(record, begin_event=begin)
    end_step()
    return done
