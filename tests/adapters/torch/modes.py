"""Observing a piece of a program in each way a user can: the three dumps, and the debugger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tests.debugger.driving import OPTIONS
from tests.debugger.hub import Hub

from sonde.adapters.torch.attach import Capture, attach
from sonde.capture.options import config_from_options
from sonde.wire.shapes import ConditionSpec, WatchpointSpec

MODES = ("tensors", "stats", "overflow", "debugger")


@contextmanager
def observed(mode: str, path: Path, *, starts_at_once: bool = False) -> Iterator[Capture]:
    """Observe the block in ``mode``; dumps go to ``path``."""
    if mode == "debugger":
        watchpoint = WatchpointSpec(
            1, "overflow", (ConditionSpec("tensor_overflow"),), break_after=0
        )
        with Hub(paused=False, watchpoints=(watchpoint,)) as hub:
            options = replace(OPTIONS, port=hub.port, lost_seconds=0.0)
            with attach(None, starts_at_once=starts_at_once, debugger=options) as capture:
                yield capture
        return
    config = config_from_options(
        path, {}, stats=mode == "stats", overflow=mode == "overflow", net_name="Net"
    )
    with attach(config, starts_at_once=starts_at_once) as capture:
        yield capture


def bare_and_observed(mode: str, path: Path, program: Callable[[], Any]) -> tuple[Any, Any]:
    """What ``program`` returns without and with Sonde, from the same seed."""
    torch.manual_seed(0)
    bare = program()
    torch.manual_seed(0)
    with observed(mode, path):
        return bare, program()
