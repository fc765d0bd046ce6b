"""Runs a step's all-reduces again, one by one and as one. Every rank must take part."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from sonde.profile.record.launch import REPLAY_PORT
from sonde.profile.record.stopwatch import compare

_TIMEOUT = datetime.timedelta(seconds=20)
_ROUNDS = 10
_MOST_BYTES = 1 << 30


def replay_all_reduces(
    sizes: Sequence[int], rank: int, ranks: int, environ: Mapping[str, str] = os.environ
) -> tuple[float, float] | None:
    """Seconds for tensors of these sizes in bytes, one after the other, and for all as one.

    None without a port to connect to, with fewer than two tensors, or if a rank does not connect.
    The number of rounds is fixed, so that all ranks do the same.
    """
    port = environ.get(REPLAY_PORT, "")
    if ranks < 2 or len(sizes) < 2 or not port.isdigit() or sum(sizes) > _MOST_BYTES:
        return None
    if not dist.is_available() or not dist.is_gloo_available():
        return None
    c10d: Any = dist
    with contextlib.suppress(RuntimeError):  # a rank that failed, or has ended
        store = c10d.TCPStore("127.0.0.1", int(port), ranks, rank == 0, _TIMEOUT)
        group = c10d.ProcessGroupGloo(store, rank, ranks, _TIMEOUT)
        parts = [torch.zeros(max(1, size // 4)) for size in sizes]
        whole = torch.zeros(sum(each.numel() for each in parts))

        def one_by_one() -> None:
            for part in parts:
                group.allreduce([part]).wait()

        taken = compare(
            {"parts": one_by_one, "whole": lambda: group.allreduce([whole]).wait()},
            budget_seconds=float("inf"),
            most_rounds=_ROUNDS,
        )
        group.barrier().wait()
        return taken["parts"], taken["whole"]
    return None
