"""Runs the callbacks of a loop, for hand-written loops and for ``Model``.

    with sonde.train.callbacks([LossMonitor()], network=net, optimizer=optimizer) as cb:
        for epoch in cb.epochs(10):
            for inputs, labels in cb.steps(loader):
                optimizer.zero_grad()
                cb.loss = loss_fn(net(inputs), labels)
                cb.loss.backward()
                optimizer.step()

It calls the hooks, counts epochs and steps, stops when a callback requests it, and resumes.
"""

from __future__ import annotations

import copy
import functools
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

import torch
from torch import nn

from sonde import logs
from sonde.core.arguments import check_non_negative_int
from sonde.core.callback import RunContext
from sonde.core.errors import UsageError
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.core.observation_variables import asking
from sonde.core.running_training import OrderlyEnd, begin_counting_at, register_ender
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

_log = logging.getLogger("sonde.train")
Result = TypeVar("Result")
Element = TypeVar("Element")


class Loop:
    """Calls the callbacks of one training run; a context manager, or a decorator.

    Callbacks use the objects given: checkpoints save the network and the states of optimizer,
    scheduler and loss scale; schedules set the optimizer's rate. ``resume`` is a checkpoint, or a
    directory of checkpoints (an empty one starts from the beginning).

    ``arguments`` is the ``cb_params`` of the callbacks. ``loss`` is the loss of the current step:
    the loop sets it, and callbacks see it as ``net_outputs``. Most loops need only ``epochs`` and
    ``steps``; other loops call ``epoch_begin``, ``step_begin``, ``step_end`` and ``epoch_end``
    themselves. Not for use from several threads.

    When a debugger ends the training (``core.running_training``), the end hooks are called after
    the last complete step; then the debugger's exception is raised from the block.
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
        self._callbacks = callback_list(callbacks)
        self._trained = Trained(network, optimizer, scheduler, loss_scale_manager)
        self._loss_fn = loss_fn
        self._train_dataset = train_dataset
        self._resume = resume
        self._reset()

    def _reset(self) -> None:
        """Set the state of a run that has not begun."""
        self._cursor = DatasetCursor()
        self._position = Position()
        self._has_begun = False
        self._is_epoch_open = False
        self._is_step_open = False
        self._held_state: dict[str, Any] | None = None
        self._unregister: Callable[[], None] | None = None
        self._error_at_end: OrderlyEnd | None = None
        self.loss: Any = None
        self.arguments = first_arguments(
            self._trained, self._callbacks, self._loss_fn, self._train_dataset
        )
        self.run_context = RunContext(self.arguments, training_state=self._training_state)
        self._hooks = Dispatcher(self._callbacks, "train", self.run_context)

    def __enter__(self) -> Loop:
        logs.configure()
        if asking(os.environ):
            # By name: captures are in a layer beside this one.
            import_module("sonde.adapters.torch.environment").begin()
        self._hooks.__enter__()
        self._unregister = register_ender(self._stop_with)
        return self

    def _stop_with(self, error: OrderlyEnd) -> None:
        self._error_at_end = error
        self.run_context.request_stop()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if self._unregister is not None:
            self._unregister()
        try:
            if self._has_begun and error is None:
                self._settle()
                self._hooks.call("end")
            elif self._has_begun and isinstance(error, OrderlyEnd):
                # The end hooks, and a resumed run, continue after the last complete step.
                self._finish_reported_step()
                self.arguments.cur_step_num = self._position.step
                self.arguments.cur_step_in_epoch = self._position.step_in_epoch
                self._hooks.call("end")
        except BaseException:
            self._hooks.__exit__(*sys.exc_info())
            raise
        self._hooks.__exit__(kind, error, traceback)
        if error is None and self._error_at_end is not None:
            raise self._error_at_end

    def __call__(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """As a decorator: each call of ``function`` is one run and gets it as first argument."""

        @functools.wraps(function)
        def run(*arguments: Any, **keywords: Any) -> Result:
            loop = copy.copy(self)
            loop._reset()
            with loop:
                return function(loop, *arguments, **keywords)

        return run

    @property
    def stop_requested(self) -> bool:
        return self.run_context.get_stop_requested()

    def epochs(self, count: int, *, initial_epoch: int = 0) -> Iterator[int]:
        """The numbers (from 1) of the epochs to run; ends early when a callback requests a stop."""
        self.arguments.epoch_num = check_non_negative_int(count, "count", "epochs")
        self._begin(initial_epoch)
        while not self.stop_requested and self._position.next_epoch <= count:
            self.epoch_begin()
            yield self._position.epoch
            self.epoch_end()

    def steps(self, dataset: Iterable[Element]) -> Iterator[Element]:
        """The batches of one epoch, each a step; outside ``epochs`` it is a whole epoch."""
        alone = not self._is_epoch_open
        if alone:
            self.epoch_begin()
        position = self._position
        if dataset is not self.arguments.train_dataset:
            self.arguments.update(train_dataset=dataset, batch_num=length_of(dataset))
        for element in self._cursor.open(dataset, position.epoch, position.step_in_epoch):
            self.step_begin(element)
            yield element
            self.step_end(self.loss)
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
        """Pass results of an evaluation (``eval_loss=0.3``) to the callbacks of the epoch's end."""
        self.arguments.eval_results = {**self.arguments.get("eval_results", {}), **results}

    def epoch_begin(self) -> None:
        """Start the next epoch, or continue the epoch in which the checkpoint was saved."""
        self._begin(0)
        self._settle()
        self._held_state = None
        position = self._position
        if not position.inside:
            position.epoch += 1
            position.step_in_epoch = 0
            position.inside = True
        self._is_epoch_open = True
        self.arguments.cur_epoch_num = position.epoch
        self.arguments.cur_step_in_epoch = position.step_in_epoch
        _log.info("epoch %d begins after %d steps", position.epoch, position.step)
        self._hooks.call("epoch_begin")

    def step_begin(self, element: Any = None) -> None:
        """Start a step on the batch ``element``."""
        if not self._is_epoch_open:
            self.epoch_begin()
        self._is_step_open = True
        self.loss = None
        self.arguments.cur_step_num = self._position.step + 1
        self.arguments.cur_step_in_epoch = self._position.step_in_epoch + 1
        self.arguments.train_dataset_element = element
        self._hooks.call("step_begin")

    def step_end(self, loss: Any = None) -> None:
        """End the step after the weights were updated; callbacks receive ``loss``."""
        if not self._is_step_open:
            self.step_begin()
        self._is_step_open = False
        self._position.step += 1
        self._position.step_in_epoch += 1
        self.arguments.net_outputs = as_step_output(loss)
        _log.debug("step %d ended", self._position.step)
        self._hooks.call("step_end")

    def epoch_end(self) -> None:
        """End the epoch and clear the results of its evaluation."""
        self._finish_reported_step()
        if self.arguments.batch_num is None:
            self.arguments.batch_num = self._position.step_in_epoch
        # Before the hooks: a checkpoint saved in one of them continues with the next epoch.
        self._position.inside = False
        self._cursor.close()
        self._hooks.call("epoch_end")
        _log.info("epoch %d ended after %d steps", self._position.epoch, self._position.step)
        self._is_epoch_open = False
        for name in ("eval_results", "metrics"):
            self.arguments.pop(name, None)

    def _begin(self, initial_epoch: int) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        position, state = self._position, None
        path = None if self._resume is None else find_checkpoint(self._resume)
        if path is not None:
            self._position, state = restore(path, self._trained, self._cursor)
            position = self._position
            begin_counting_at(position.step)
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
        self._hooks.call("begin")
        if state is not None:
            restore_callbacks(state, self._callbacks)

    def _settle(self) -> None:
        """End the step and the epoch that a ``break`` in the user's loop left open."""
        self._finish_reported_step()
        if self._is_epoch_open:
            self.epoch_end()

    def _finish_reported_step(self) -> None:
        """End an open step, if its loss was set; without a loss it does not count."""
        if self._is_step_open and self.loss is not None:
            self.step_end(self.loss)
        self._is_step_open = False

    def _hold_if_cut_short(self) -> None:
        """Keep the current state if the epoch has batches left.

        The hooks of its early end, and an evaluation there, draw random numbers and change states.
        A later run that continues in this epoch must not see these changes.
        """
        batches = self.arguments.batch_num
        if batches is None or self._position.step_in_epoch < batches:
            with suppress(CheckpointError):  # the state cannot be saved; saving it raises
                self._held_state = unflatten(*flatten(self._training_state()))

    def _training_state(self) -> dict[str, Any]:
        if self._held_state is not None:
            return self._held_state
        state = training_state(self._trained, self._position, self._cursor, self._callbacks)
        return {**state, "loss": loss_number(self.arguments.get("net_outputs"))}


callbacks = Loop
