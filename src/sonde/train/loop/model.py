"""``Model``: a network with its loss, optimizer and metrics, over any iterable of batches."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from sonde.core.arguments import check_non_negative_int, check_positive_int, wrong_value
from sonde.core.callback import Callback, RunArguments, RunContext
from sonde.core.errors import UsageError
from sonde.train.loop.arguments import length_of
from sonde.train.loop.dispatch import Callbacks, Dispatcher, callback_list
from sonde.train.loop.evaluation import evaluate, evaluating
from sonde.train.loop.loop import Loop
from sonde.train.loop.model_checks import (
    check_dataset,
    check_loss_fn,
    check_network,
    check_part,
    check_scheduler_every,
    check_valid_frequency,
    checked_indexes,
    resolved_scheduler,
)
from sonde.train.loop.progress import ProgressBar
from sonde.train.loop.sink import in_sink_epochs
from sonde.train.loop.step import Forward, TrainStep, evaluation_outputs, place
from sonde.train.loss_scale import DynamicLossScaleManager
from sonde.train.precision import precision_of


class Model:
    """Trains, evaluates and runs ``network``.

    A batch is ``(input, ..., target)``, or a dict with ``labels``. Without ``loss_fn`` the network
    gets the whole batch and returns its loss; without ``optimizer`` it also updates the weights.
    ``metrics`` is a set of names or a dict of metrics. ``eval_network`` replaces the network in
    ``eval``; ``eval_indexes`` are then the positions of loss, prediction and target in its outputs.

    ``amp_level`` (O0, O1, O2, O3, auto) and ``dtype`` choose the precision, ``loss_scale_manager``
    scales the loss, ``scheduler`` (any of ``torch.optim.lr_scheduler``, a ``LearningRateSchedule``
    or a list of rates) is stepped every step or every epoch. ``compile=True``, or a dict of
    options, runs the network through ``torch.compile``. ``device`` moves the network; batches
    always go where the network is. ``callbacks`` are called in every run.
    """

    def __init__(
        self,
        network: nn.Module,
        loss_fn: Callable[..., Any] | None = None,
        optimizer: Any = None,
        metrics: Mapping[str, Any] | Iterable[str] | None = None,
        eval_network: Callable[..., Any] | None = None,
        eval_indexes: Sequence[int] | None = None,
        amp_level: str = "O0",
        *,
        dtype: str | torch.dtype | None = None,
        loss_scale_manager: Any = None,
        scheduler: Any = None,
        scheduler_every: str = "step",
        compile: bool | Mapping[str, Any] = False,
        device: str | torch.device | None = None,
        callbacks: Callbacks = None,
    ) -> None:
        check_network(network)
        check_loss_fn(loss_fn)
        scheduler = resolved_scheduler(scheduler, optimizer)
        check_scheduler_every(scheduler_every)
        check_part(loss_scale_manager, "loss_scale_manager")
        if device is not None:
            network.to(device)
        self.network = network
        self.optimizer = optimizer
        self.loss_fn = loss_fn
        self.scheduler = scheduler
        self._scheduler_every = scheduler_every
        self._callbacks = callback_list(callbacks)
        self._precision = precision_of(amp_level, dtype, _device_of(network))
        self._precision.prepare(network)
        if loss_scale_manager is None and self._precision.dynamic_loss_scale:
            loss_scale_manager = DynamicLossScaleManager()
        self.loss_scale_manager = loss_scale_manager
        self._runner = _compiled(network, compile)
        self._eval_network = eval_network
        self._eval_indexes = checked_indexes(eval_network, eval_indexes)
        self._metrics = _metrics(metrics)

    @property
    def train_network(self) -> nn.Module:
        """The network that is trained, with its own parameter names."""
        return self.network

    def train(
        self,
        epoch: int,
        train_dataset: Iterable[Any],
        callbacks: Callbacks = None,
        dataset_sink_mode: bool = False,
        sink_size: int = -1,
        initial_epoch: int = 0,
        *,
        resume: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Train until ``epoch`` epochs are done, or a callback requests a stop.

        ``train_dataset`` is any iterable of batches; it is iterated once per epoch. ``resume`` is a
        checkpoint or a directory of them: training continues from there exactly as if it had not
        been interrupted (an empty directory starts from the beginning). ``progress`` shows or hides
        the progress bar; by default it is shown in a terminal. With ``dataset_sink_mode`` an epoch
        has ``sink_size`` steps (-1: the whole dataset), as in MindSpore; it has no other effect,
        and every step calls the callbacks.
        """
        self.fit(
            epoch,
            train_dataset,
            callbacks=callbacks,
            dataset_sink_mode=dataset_sink_mode,
            sink_size=sink_size,
            initial_epoch=initial_epoch,
            resume=resume,
            progress=progress,
        )

    def fit(
        self,
        epoch: int,
        train_dataset: Iterable[Any],
        valid_dataset: Iterable[Any] | None = None,
        valid_frequency: int | Sequence[int] = 1,
        callbacks: Callbacks = None,
        dataset_sink_mode: bool = False,
        valid_dataset_sink_mode: bool = False,
        sink_size: int = -1,
        initial_epoch: int = 0,
        *,
        resume: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> None:
        """``train`` with an evaluation after every ``valid_frequency``-th (or each listed) epoch.

        At the end of the epoch, callbacks find the results in ``cb_params.metrics`` and, with the
        prefix ``eval_``, in ``cb_params.eval_results``.
        """
        self._check_run(epoch, initial_epoch, train_dataset, valid_dataset, valid_frequency)
        train_dataset = in_sink_epochs(
            train_dataset, sink_size, dataset_sink_mode=dataset_sink_mode, resume=resume
        )
        listed = callback_list(self._callbacks, callbacks)
        shown = progress or (progress is None and ProgressBar.is_useful())
        loop = self._loop([*listed, ProgressBar()] if shown else listed, train_dataset, resume)
        loop.arguments.dataset_sink_mode = dataset_sink_mode
        step = TrainStep(
            Forward(self._runner, self.loss_fn, self._precision),
            self.network,
            self.optimizer,
            self.loss_scale_manager,
            self.scheduler if self._scheduler_every == "step" else None,
        )
        self.network.train()
        with loop:
            for number in loop.epochs(epoch, initial_epoch=initial_epoch):
                self._train_epoch(loop, step, train_dataset)
                if valid_dataset is not None and _is_due(number, valid_frequency):
                    results = self._evaluate(valid_dataset, listed, valid_dataset_sink_mode, loop)
                    loop.arguments.metrics = results
                    loop.report(**{f"eval_{name}": value for name, value in results.items()})

    def eval(
        self,
        valid_dataset: Iterable[Any],
        callbacks: Callbacks = None,
        dataset_sink_mode: bool = False,
    ) -> dict[str, Any]:
        """The values of the metrics over ``valid_dataset``; the network's mode is restored."""
        check_dataset(valid_dataset, "valid_dataset")
        listed = callback_list(self._callbacks, callbacks)
        return self._evaluate(valid_dataset, listed, dataset_sink_mode, None)

    def predict(self, *predict_data: Any) -> Any:
        """The network's output for these inputs, without gradients, in evaluation mode."""
        inputs = place(predict_data, self._precision.device)
        with evaluating(self.network), torch.no_grad(), self._precision.context():
            outputs = self._runner(*self._precision.inputs(inputs))
        return self._precision.outputs(outputs)

    def _check_run(
        self,
        epoch: int,
        initial_epoch: int,
        train_dataset: Iterable[Any],
        valid_dataset: Iterable[Any] | None,
        valid_frequency: int | Sequence[int],
    ) -> None:
        check_valid_frequency(valid_frequency)
        if valid_dataset is not None:
            check_dataset(valid_dataset, "valid_dataset")
            self._require_metrics()
        check_positive_int(epoch, "epoch", "Model")
        check_non_negative_int(initial_epoch, "initial_epoch", "Model")
        if initial_epoch >= epoch:
            rule = f"must be less than epoch, which is {epoch}"
            raise wrong_value("initial_epoch", "Model", rule, initial_epoch)
        check_dataset(train_dataset, "train_dataset")

    def _loop(
        self,
        callbacks: Sequence[Callback],
        dataset: Iterable[Any],
        resume: str | os.PathLike[str] | None,
    ) -> Loop:
        return Loop(
            callbacks,
            network=self.network,
            # A network that updates its own weights has the optimizer.
            optimizer=self.optimizer or getattr(self.network, "optimizer", None),
            loss_fn=self.loss_fn,
            scheduler=self.scheduler,
            loss_scale_manager=self.loss_scale_manager,
            train_dataset=dataset,
            resume=resume,
        )

    def _train_epoch(self, loop: Loop, step: TrainStep, dataset: Iterable[Any]) -> None:
        for element in loop.steps(dataset):
            result = step(element)
            loop.loss = result.output
            if result.scale is not None:
                loop.arguments.update(overflow=result.overflow, loss_scale=result.scale)
        if self.scheduler is not None and self._scheduler_every == "epoch":
            with warnings.catch_warnings():
                # A run resumed at the end of an epoch steps the scheduler before the optimizer.
                warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
                self.scheduler.step()

    def _evaluate(
        self,
        dataset: Iterable[Any],
        callbacks: Sequence[Callback],
        dataset_sink_mode: bool,
        training: Loop | None,
    ) -> dict[str, Any]:
        self._require_metrics()
        forward = Forward(self._runner, self.loss_fn, self._precision)
        arguments = RunArguments(
            {} if training is None else training.arguments,
            mode="eval",
            network=self.network,
            eval_network=self._eval_network or self.network,
            loss_fn=self.loss_fn,
            optimizer=self.optimizer,
            valid_dataset=dataset,
            batch_num=length_of(dataset),
            list_callback=callbacks,
            dataset_sink_mode=dataset_sink_mode,
        )
        context = RunContext(arguments, within_fit=training is not None)
        own = [self._eval_network] if isinstance(self._eval_network, nn.Module) else []
        with evaluating(self.network, *own):
            results = evaluate(
                dataset,
                functools.partial(evaluation_outputs, forward, self._eval_network),
                self._metrics,
                self._eval_indexes,
                Dispatcher(callbacks, "eval", context),
                context,
            )
        if training is not None and context.get_stop_requested():
            training.run_context.request_stop()
        return results

    def _require_metrics(self) -> None:
        if not self._metrics:
            raise UsageError(
                "this Model has no metrics to evaluate: give it metrics={'accuracy'} or a dict",
                slug="no-metrics",
            )


def _device_of(network: nn.Module) -> torch.device:
    for tensor in (*network.parameters(), *network.buffers()):
        return tensor.device
    return torch.device("cpu")


def _compiled(network: nn.Module, compile: bool | Mapping[str, Any]) -> Callable[..., Any]:
    if not compile:
        return network
    options = dict(compile) if isinstance(compile, Mapping) else {}
    compiled: Callable[..., Any] = torch.compile(network, **options)
    return compiled


def _metrics(metrics: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Any]:
    if metrics is None:
        return {}
    from sonde.train.metrics import get_metrics  # torchmetrics is slow to import

    return dict(get_metrics(metrics))


def _is_due(epoch: int, frequency: int | Sequence[int]) -> bool:
    if isinstance(frequency, int):
        return epoch % frequency == 0
    return epoch in frequency
