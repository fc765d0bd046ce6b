"""Runs the callbacks of a loop, for hand-written loops and for ``Model``.

    with sonde.train.callbacks([LossMonitor()], network=net, optimizer=optimizer) as cb:
        for epoch in cb.epochs(10):
            for inputs, labels in cb.steps(loader):
                optimizer.zero_grad()
                cb.loss = loss_fn(net(inputs), labels)
                cb.loss.backward()
                optimizer.step()

The loop calls the hooks, counts, stops when a callback asks for it, and resumes.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import nn

from sonde import logs
from sonde.core.callback import RunContext
from sonde.core.errors import UsageError
from sonde.core.mindspore_ckpt import CheckpointError
from sonde.core.orderly_end import OrderlyEnd, register_ender
from sonde.train.checkpoint.resume import (
    DatasetCursor,
    Position,
    Trained,
    find_checkpoint,
    restore,
    restore_callbacks,
    training_state,
)
from sonde.train.checkpoint.state_json import flatten, unflatten
from sonde.train.loop.arguments import first_arguments, length_of
from sonde.train.loop.dispatch import Callbacks, Dispatcher, callback_list
from sonde.train.loop.step_loss import as_step_output, loss_number
from sonde.train.validator import check_non_negative_int

Result = TypeVar("Result")
Element = TypeVar("Element")


def _nothing() -> None:
    pass


class Loop:
    """One training run as its callbacks see it: a context manager, or a decorator.

    The objects given are what the callbacks need: checkpoints save the network and the states of
    optimizer, scheduler and loss scale; schedules set the optimizer's rate. ``resume`` is a
    checkpoint, or a directory of checkpoints (an empty one starts from the beginning).

    ``arguments`` is what callbacks get as ``cb_params``. ``epochs`` and ``steps`` are all most
    loops need; loops of another shape call ``epoch_begin``, ``step_begin``, ``step_end`` and
    ``epoch_end`` themselves. Not for use from several threads.

    When a debugger ends the training (``core.orderly_end``), callbacks are told of the end, as at
    any other one, after the last whole step; then the debugger's exception leaves the block.
    """

    def __init__(
        self,
        callbacks: Callbacks = None,
        *,
        network: nn.Module | None = None,
        optimizer: Any = None,
        loss_fn: Callable[..., Any] | None = None,
        scheduler: Any = None,
        loss_scale_manager: Any = None,
        train_dataset: Iterable[Any] | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> None:
        self._fresh = functools.partial(
            Loop,
            callbacks,
            network=network,
            optimizer=optimizer,
            loss_fn=loss_fn,
            scheduler=scheduler,
            loss_scale_manager=loss_scale_manager,
            train_dataset=train_dataset,
            resume=resume,
        )
        self._dispatcher = Dispatcher(callback_list(callbacks), "train")
        self._trained = Trained(network, optimizer, scheduler, loss_scale_manager)
        self._resume = resume
        self._cursor = DatasetCursor()
        self._position = Position()
        self._begun = False
        self._epoch_open = False
        self._step_open = False
        self._reported: Any = None
        self._held: dict[str, Any] | None = None
        self._unregister: Callable[[], None] = _nothing
        self._error_at_end: OrderlyEnd | None = None
        self.arguments = first_arguments(
            self._trained, self._dispatcher.callbacks, loss_fn, train_dataset
        )
        self.run_context = RunContext(self.arguments, training_state=self._training_state)

    def __enter__(self) -> Loop:
        logs.configure()
        self._dispatcher.__enter__()
        self._unregister = register_ender(self._stop_with)
        return self

    def _stop_with(self, error: OrderlyEnd) -> None:
        self._error_at_end = error
        self.run_context.request_stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._unregister()
        try:
            if self._begun and error is None:
                self._settle()
                self._call("end")
            elif self._begun and isinstance(error, OrderlyEnd):
                self._leave_step_undone()
                self._call("end")
        except BaseException:
            self._dispatcher.__exit__(*sys.exc_info())
            raise
        self._dispatcher.__exit__(kind, error, traceback)
        if error is None and self._error_at_end is not None:
            raise self._error_at_end

    def __call__(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """As a decorator: each call of ``function`` is one run and gets it as first argument."""

        @functools.wraps(function)
        def run(*arguments: Any, **keywords: Any) -> Result:
            with self._fresh() as loop:
                return function(loop, *arguments, **keywords)

        return run

    @property
    def loss(self) -> Any:
        """The loss of the current step, as it was set: callbacks see it as ``net_outputs``."""
        return self._reported

    @loss.setter
    def loss(self, value: Any) -> None:
        self._reported = value

    @property
    def stop_requested(self) -> bool:
        return self.run_context.get_stop_requested()

    def epochs(self, count: int, *, initial_epoch: int = 0) -> Iterator[int]:
        """The numbers (from 1) of the epochs to run; ends early when a callback asks to stop."""
        self.arguments.epoch_num = check_non_negative_int(count, "count", "epochs")
        self._begin(initial_epoch)
        while not self.stop_requested and self._next_epoch() <= count:
            self.epoch_begin()
            yield self._position.epoch
            self.epoch_end()

    def steps(self, dataset: Iterable[Element]) -> Iterator[Element]:
        """The batches of one epoch, each a step; outside ``epochs`` it is an epoch too."""
        alone = not self._epoch_open
        if alone:
            self.epoch_begin()
        position = self._position
        self._describe(dataset)
        seen = position.step_in_epoch
        for element in self._cursor.open(dataset, position.epoch, seen):
            self.step_begin(element)
            yield element
            self.step_end(self._reported)
            if self.stop_requested:
                self._hold_if_cut_short()
                break
        if position.step_in_epoch == 0:
            raise UsageError(
                f"the dataset gave no batch in epoch {position.epoch}: an iterator can be used "
                "only once, and an empty dataset trains nothing",
                slug="empty-dataset",
            )
        if alone:
            self.epoch_end()

    def report(self, **results: Any) -> None:
        """Tell the callbacks results of an evaluation (``eval_loss=0.3``) before the epoch ends."""
        self.arguments.eval_results = {**self.arguments.get("eval_results", {}), **results}

    def epoch_begin(self) -> None:
        """Start the next epoch, or go on with the one a checkpoint was made in."""
        self._begin(0)
        self._settle()
        self._held = None
        position = self._position
        if not position.inside:
            position.epoch += 1
            position.step_in_epoch = 0
            position.inside = True
        self._epoch_open = True
        self.arguments.cur_epoch_num = position.epoch
        self.arguments.cur_step_in_epoch = position.step_in_epoch
        self._call("epoch_begin")

    def step_begin(self, element: Any = None) -> None:
        """Start a step on the batch ``element``."""
        if not self._epoch_open:
            self.epoch_begin()
        self._step_open = True
        self._reported = None
        self.arguments.cur_step_num = self._position.step + 1
        self.arguments.cur_step_in_epoch = self._position.step_in_epoch + 1
        self.arguments.train_dataset_element = element
        self._call("step_begin")

    def step_end(self, loss: Any = None) -> None:
        """End the step after the weights were updated; callbacks receive ``loss``."""
        if not self._step_open:
            self.step_begin()
        self._step_open = False
        self._position.step += 1
        self._position.step_in_epoch += 1
        self.arguments.net_outputs = as_step_output(loss)
        self._call("step_end")

    def epoch_end(self) -> None:
        """The epoch is done; results of an evaluation are forgotten afterwards."""
        self._finish_reported_step()
        if self.arguments.batch_num is None:
            self.arguments.batch_num = self._position.step_in_epoch
        # Before the hooks: what is saved in one of them goes on with the next epoch.
        self._position.inside = False
        self._cursor.close()
        self._call("epoch_end")
        self._epoch_open = False
        for name in ("eval_results", "metrics"):
            self.arguments.pop(name, None)

    def _begin(self, initial_epoch: int) -> None:
        if self._begun:
            return
        self._begun = True
        position, state = self._position, None
        path = None if self._resume is None else find_checkpoint(self._resume)
        if path is not None:
            self._position, state = restore(path, self._trained, self._cursor)
            position = self._position
            if state["loss"] is not None:  # an epoch may end before the next step
                loss = torch.tensor(state["loss"], dtype=torch.float64)
                self.arguments.net_outputs = as_step_output(loss)
        else:
            position.epoch = initial_epoch
            position.step = initial_epoch * (self.arguments.batch_num or 0)
        self.arguments.update(
            cur_epoch_num=position.epoch,
            cur_step_num=position.step,
            cur_step_in_epoch=position.step_in_epoch,
            initial_step=position.step,
        )
        self._call("begin")
        if state is not None:
            restore_callbacks(state, self._dispatcher.callbacks)

    def _settle(self) -> None:
        """Close what a ``break`` in the user's loop left open."""
        self._finish_reported_step()
        if self._epoch_open:
            self.epoch_end()

    def _finish_reported_step(self) -> None:
        """After a ``break`` only a step whose loss was set counts as done."""
        if self._step_open and self._reported is not None:
            self.step_end(self._reported)
        self._step_open = False

    def _leave_step_undone(self) -> None:
        """Report the last complete step to the callbacks; a resumed run continues after it."""
        self._finish_reported_step()
        self.arguments.cur_step_num = self._position.step
        self.arguments.cur_step_in_epoch = self._position.step_in_epoch

    def _next_epoch(self) -> int:
        return self._position.epoch + (0 if self._position.inside else 1)

    def _call(self, moment: str) -> None:
        self._dispatcher.call(moment, self.run_context)

    def _hold_if_cut_short(self) -> None:
        """Keep the state of now where the epoch has batches left.

        The hooks of its early end, an evaluation among them, draw numbers and count; a later run
        that goes on in this epoch must not know of it.
        """
        batches = self.arguments.batch_num
        if batches is None or self._position.step_in_epoch < batches:
            with suppress(CheckpointError):  # the state cannot be saved; saving it raises
                self._held = unflatten(*flatten(self._training_state()))

    def _training_state(self) -> dict[str, Any]:
        if self._held is not None:
            return self._held
        state = training_state(
            self._trained, self._position, self._cursor, self._dispatcher.callbacks
        )
        return {**state, "loss": loss_number(self.arguments.get("net_outputs"))}

    def _describe(self, dataset: Iterable[Any]) -> None:
        if dataset is not self.arguments.train_dataset:
            self.arguments.update(train_dataset=dataset, batch_num=length_of(dataset))


callbacks = Loop
