"""The rank side of the debugger: watchpoints, control, answers to questions."""

from __future__ import annotations

from sonde.core.running_training import OrderlyEnd


class Terminated(OrderlyEnd):
    """The training was ended from the debugger.

    Raised in the training thread at the end of an op or a step, never while an optimizer changes
    weights. It is a KeyboardInterrupt, like Ctrl-C at the terminal: ``except Exception`` does not
    swallow it, and ``finally`` and ``with`` blocks, callbacks that save a checkpoint on the way
    out, and code written for Ctrl-C run.
    """
