"""``History`` keeps the results of the epochs; ``LambdaCallback`` makes callbacks of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sonde.core.callback import Callback, RunContext
from sonde.train.loop.step_loss import loss_number
from sonde.train.validator import wrong_type

Hook = Callable[[RunContext], Any]


class History(Callback):
    """After training, ``epoch["epoch"]`` lists the epochs and ``history`` what each ended with.

    ``history["net_output"]`` is the loss of each epoch's last step as a float; after evaluations in
    ``fit`` there is one list per result (``eval_accuracy``). It survives a resume.
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
        self._append("net_output", loss_number(arguments.get("net_outputs")))
        for name, value in arguments.get("eval_results", {}).items():
            self._append(name, value)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch["epoch"], "history": self.history}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = {"epoch": list(state["epoch"])}
        self.history = {name: list(values) for name, values in state["history"].items()}

    def _append(self, name: str, value: Any) -> None:
        self.history.setdefault(name, []).append(value)


class LambdaCallback(Callback):
    """A callback out of functions, each called with the ``run_context``."""

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
