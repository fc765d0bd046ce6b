"""``History`` keeps the results of the epochs; ``LambdaCallback`` wraps functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sonde.core.arguments import wrong_type
from sonde.core.callback import Callback, RunContext
from sonde.train.loop.step_loss import loss_number

Hook = Callable[[RunContext], Any]


class History(Callback):
    """Keeps the numbers of the epochs in ``epoch["epoch"]`` and their results in ``history``.

    ``history["net_output"]`` is the loss of each epoch's last step as a float; evaluations in
    ``fit`` add one list per result (``eval_accuracy``). Checkpoints save it.
    """

    def __init__(self) -> None:
        self.epoch: dict[str, list[int]] = {"epoch": []}
        self.history: dict[str, list[Any]] = {}

    def on_train_begin(self, run_context: RunContext) -> None:
        self.epoch = {"epoch": []}
        self.history = {}

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        self.epoch["epoch"].append(arguments.cur_epoch_num)
        loss = loss_number(arguments.get("net_outputs"))
        results = {"net_output": loss, **arguments.get("eval_results", {})}
        for name, value in results.items():
            self.history.setdefault(name, []).append(value)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch["epoch"], "history": self.history}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = {"epoch": list(state["epoch"])}
        self.history = {name: list(values) for name, values in state["history"].items()}


class LambdaCallback(Callback):
    """A callback made of functions, each called with the ``run_context``."""

    def __init__(
        self,
        on_train_begin: Hook | None = None,
        on_train_epoch_begin: Hook | None = None,
        on_train_step_begin: Hook | None = None,
        on_train_step_end: Hook | None = None,
        on_train_epoch_end: Hook | None = None,
        on_train_end: Hook | None = None,
        on_eval_begin: Hook | None = None,
        on_eval_epoch_begin: Hook | None = None,
        on_eval_step_begin: Hook | None = None,
        on_eval_step_end: Hook | None = None,
        on_eval_epoch_end: Hook | None = None,
        on_eval_end: Hook | None = None,
    ) -> None:
        given = {name: hook for name, hook in locals().items() if name.startswith("on_")}
        for name, hook in given.items():
            if hook is not None:
                if not callable(hook):
                    raise wrong_type(name, "LambdaCallback", "must be a function", hook)
                setattr(self, name, hook)
