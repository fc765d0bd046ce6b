"""How a training ends when somebody at the page says so."""

from __future__ import annotations

from sonde.core.orderly_end import OrderlyEnd


class Terminated(OrderlyEnd):
    """The training was ended from the debugger.

    Raised in the training thread at the end of an op or a step, never while an optimizer changes
    weights. It is a KeyboardInterrupt because
    that is how a person ends a program: ``except Exception`` does not swallow it, ``finally`` and
    ``with`` blocks, callbacks that save a checkpoint on the way out, and code made for Ctrl-C do
    what they do for Ctrl-C.
    """
