"""Records backward passes: their roots, and the gradients that arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.outside_ops import KnownTensors
from sonde.adapters.torch.replay.recording.backward_roots import describe_backward, graph_name
from sonde.adapters.torch.replay.recording.step_events import StepEvents
from sonde.adapters.torch.replay.recording.switch import RecordingSwitch
from sonde.adapters.torch.replay.step_record import BackwardPass, ModuleCall, ReplayProblem

_MOST_UNSEEN = 3


class BackwardRecorder:
    """The backward passes of the running step. ``count``: those that have ended.

    ``watches_always``: a loss came from ops that were not recorded, which may run before the first
    module of a step, so that ops are to be recorded from the step's beginning.
    """

    def __init__(self, switch: RecordingSwitch, known: KnownTensors, events: StepEvents) -> None:
        self._switch = switch
        self._known = known
        self._events = events
        self._running: BackwardPass | None = None
        self._has_new_gradients = False
        self._unseen = 0
        self.count = 0
        self.watches_always = False

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def begins(self, tensors: Any, options: dict[str, Any]) -> None:
        """A backward pass begins at ``tensors``."""
        self._running = describe_backward(self.count, tensors, options, self._known)
        self._switch.in_backward = True
        if not self._running.is_connected:
            # Ops before the first module may explain it; else watching them is in vain.
            self._unseen += 1
            self.watches_always = self._unseen <= _MOST_UNSEEN
            self._events.add_reason(ReplayProblem("outside_unseen", detail=graph_name(tensors)))
        self._events.add(self._running)

    def ended(self, error: Exception | None) -> None:
        """The running pass has ended, or raised ``error``."""
        assert self._running is not None
        self._running.error = error
        self._running, self._switch.in_backward = None, False
        self.count += 1
        self._has_new_gradients = True

    def gradient_arrived(self, call: ModuleCall, number: int, gradient: torch.Tensor) -> None:
        """``gradient`` arrived at a result of ``call``."""
        output = call.outputs[number]
        if self._switch.is_replaying or self._running is None:
            return
        call.is_pending = False
        if output.backward is None:
            output.backward = self._running.number
            if not self._running.is_connected or output.is_small:
                with private.unobserved():
                    output.gradient = gradient.detach()
        else:  # Differentiated twice: the graph was retained.
            output.gradient = None

    def new_gradients(
        self, parameters: Callable[[], Iterable[torch.Tensor]]
    ) -> Iterable[KeptTensor]:
        """The gradients of ``parameters`` after the last pass, if they are not known yet."""
        if not self._has_new_gradients:
            return
        self._has_new_gradients = False
        last = self._events.last_backward()
        for parameter in parameters():
            gradient = parameter.grad
            if gradient is not None:
                version = private.version_of(gradient)
                kept = KeptTensor(id(gradient), gradient, version, False, gradient)
                last.parameter_gradients.append((parameter, kept))
                yield kept

    def forget(self) -> None:
        """A step has ended."""
        self.count = 0
        self._running, self._switch.in_backward = None, False
        self._has_new_gradients = False
