"""Whether the running code belongs to a step that is recorded, and the mode that records ops."""

from __future__ import annotations

import os
import threading

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.outside_ops import (
    OutsideOps,
    pop_function_mode_below,
    push_function_mode_below,
)


class RecordingSwitch:
    """The state of a recorder.

    ``is_on``: until it is removed or has failed. ``is_replaying``: a step is executed again.
    ``is_stepping``: ``optimizer`` changes weights; ``closure_calls`` counts how often it has called
    its closure. ``in_backward``: a recorded backward pass runs. Only the thread that made the
    recorder is recorded, and no forked process.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._pid = os.getpid()
        self.is_on = False
        self.is_replaying = False
        self.is_stepping = False
        self.in_backward = False
        self.optimizer: torch.optim.Optimizer | None = None
        self.closure_calls = 0

    @property
    def is_own_thread(self) -> bool:
        return threading.get_ident() == self._thread

    @property
    def is_recording(self) -> bool:
        return (
            self.is_on
            and not self.is_stepping
            and not self.in_backward
            and not private.is_transforming()
            and self.is_own_thread
            and os.getpid() == self._pid
        )

    def stepped(self) -> None:
        """The optimizer has stepped, or raised."""
        self.is_stepping, self.optimizer, self.closure_calls = False, None, 0

    def pause(self, ops: OutsideOps) -> None:
        """Record no ops until `resume`."""
        pop_function_mode_below(ops)

    def resume(self, ops: OutsideOps) -> None:
        """Record ops again, if the running code is recorded."""
        if self.is_recording and not ops.is_running:
            push_function_mode_below(ops)
