"""Monitors a training: the signals of its steps, the file that keeps them, and triggers."""

from __future__ import annotations

from sonde.core.running_training import OrderlyEnd


class GuardStopped(OrderlyEnd):
    """The guard ended the training at a trigger, before the optimizer changed the weights.

    It is a KeyboardInterrupt, as `sonde.debugger.Terminated` is: ``except Exception`` does not
    swallow it, and code written for Ctrl-C runs.
    """
