"""The entries of ``cb_params`` at the start of a training run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sonde.core.callback import Callback, RunArguments
from sonde.train.checkpoint.resume import Trained
from sonde.train.ranks import rank_count


def first_arguments(
    trained: Trained,
    callbacks: Sequence[Callback],
    loss_fn: Callable[..., Any] | None,
    dataset: Iterable[Any] | None,
) -> RunArguments:
    """The ``cb_params`` of the hook ``begin``."""
    ranks = rank_count()
    return RunArguments(
        mode="train",
        network=trained.network,
        train_network=trained.network,
        loss_fn=loss_fn,
        optimizer=trained.optimizer,
        scheduler=trained.scheduler,
        loss_scale_manager=trained.loss_scale_manager,
        loss_scale_mananger=trained.loss_scale_manager,  # MindSpore's spelling
        train_dataset=dataset,
        batch_num=length_of(dataset),
        epoch_num=None,
        cur_epoch_num=0,
        cur_step_num=0,
        cur_step_in_epoch=0,
        initial_step=0,
        list_callback=callbacks,
        dataset_sink_mode=False,
        device_number=ranks,
        parallel_mode="data_parallel" if ranks > 1 else "stand_alone",
        last_save_ckpt_step=None,
        latest_ckpt_file=None,
    )


def length_of(dataset: Iterable[Any] | None) -> int | None:
    """The number of batches, or None if the dataset has no length."""
    try:
        return len(dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None
