"""``LossMonitor``: prints the loss and ends a run whose loss is NaN or Inf."""

from __future__ import annotations

from sonde.core.callback import Callback, RunContext
from sonde.core.errors import SondeError, UsageError
from sonde.core.origin import first_bad_op
from sonde.train.loop.step_loss import is_bad, loss_number
from sonde.train.validator import check_non_negative_int


class NonFiniteLossError(SondeError, ValueError):
    """The loss is NaN or Inf. Its text is the reference's, word for word, so without the slug."""

    def __init__(self, message: str) -> None:
        super().__init__(message, slug="loss-not-finite")
        self.args = (message,)


class LossMonitor(Callback):
    """Prints ``epoch: 1 step: 1, loss is 2.28...`` every ``per_print_times`` steps (0: never).

    Every step's loss is checked: NaN or Inf raises ``NonFiniteLossError``, a ``ValueError``. When
    Sonde observes the run, the message also names the op the bad number came from. The step
    printed counts from 1 in each epoch. After an evaluation in ``fit`` the results are printed.
    """

    def __init__(self, per_print_times: int = 1) -> None:
        self._every = check_non_negative_int(per_print_times, "per_print_times", "LossMonitor")
        self._last_print = 0

    def on_train_begin(self, run_context: RunContext) -> None:
        self._last_print = run_context.original_args().cur_step_num

    def on_train_step_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        loss = loss_number(arguments.get("net_outputs"))
        if loss is None:
            raise UsageError(
                "LossMonitor found no loss: in a loop of your own set cb.loss in every step",
                slug="no-loss",
            )
        epoch, step = arguments.cur_epoch_num, arguments.cur_step_in_epoch
        if is_bad(loss):
            op = first_bad_op()
            raise NonFiniteLossError(
                f"In epoch: {epoch} step: {step}, loss is NAN or INF, training process cannot "
                "continue, terminating training."
                + (f" The first NaN or Inf came from {op}." if op else "")
            )
        if self._every and arguments.cur_step_num - self._last_print >= self._every:
            self._last_print = arguments.cur_step_num
            print(f"epoch: {epoch} step: {step}, loss is {loss}", flush=True)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        if arguments.get("metrics"):
            shown = dict(arguments.metrics)
            print(f"Eval result: epoch {arguments.cur_epoch_num}, metrics: {shown}", flush=True)
