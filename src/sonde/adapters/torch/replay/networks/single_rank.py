"""Lets a program of several ranks run as one: a captured step is that of one rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch.distributed

from sonde.core.patching import wrap

_LAUNCHED = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


@contextmanager
def as_single_rank() -> Iterator[None]:
    """In this block a process group that the program makes has one rank, and the variables of a
    launcher say so."""
    before = {name: os.environ.get(name) for name in _LAUNCHED}
    os.environ.update(_LAUNCHED)
    with ExitStack() as undo:
        undo.callback(_restore, before)
        if torch.distributed.is_available():
            wrap(torch.distributed, "init_process_group", _of_one, undo)
        yield


def _of_one(original: Callable[..., Any]) -> Callable[..., Any]:
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        store: Any = getattr(torch.distributed, "HashStore")()  # noqa: B009 - not in its stubs
        original("gloo", store=store, rank=0, world_size=1)

    return init_process_group


def _restore(variables: dict[str, str | None]) -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
