"""The training toolkit: Model, callbacks, checkpoints, metrics, loss scale, learning rates."""

from sonde.core.callback import Callback, RunArguments, RunContext

__all__ = ["Callback", "RunArguments", "RunContext"]
