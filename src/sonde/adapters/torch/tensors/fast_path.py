"""The fast paths of sinks (``core.sink``), served by native code (``native/match``).

An op takes a fast path if only one sink wants the op and its leaves, and that sink has declared a
fast path. Every other op, and every op where the native matcher was not built, goes through views
and calls in Python, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch

from sonde import kernels
from sonde.adapters.torch.eager import matcher
from sonde.adapters.torch.eager.op_tree import OpRecord, TensorRef
from sonde.adapters.torch.tensors.view import TorchView, kernel_codes
from sonde.capture.session import Session, Subscription
from sonde.core.graph import OpNode
from sonde.core.interruption import pass_on
from sonde.core.keys import Io
from sonde.core.sink import RowPath, Screen, ScreenPath

_MOST_SCREENS = 1000


class _Screens:
    """The native screens of one sink, made as they are needed. They share their results."""

    def __init__(self, native: ModuleType, path: ScreenPath, context: dict[str, object]) -> None:
        self._path = path
        self.screening = native.Screening(
            **context,
            contiguous=kernels.non_finite,
            strided=kernels.non_finite_strided,
            unusual=_is_unusual_wanted,
        )

        @lru_cache(maxsize=_MOST_SCREENS)
        def native_screen(screen: Screen) -> Any:
            return native.Screen(
                screening=self.screening,
                **_summary(outline=screen.outline),
                takes_inputs=screen.takes_inputs,
                tests=screen.tests,
            )

        self._native_screen = native_screen

    def every_op(self) -> Any:
        """The native screen of every op, if all have the same; else None."""
        screen = self._path.every_op
        return None if screen is None else self._native_screen(screen)

    def path_of(self, record: OpRecord, leaves: Sequence[OpNode]) -> Any:
        """The native screen of an op; None if all its runs are wanted."""
        screen = self._path.screen(record.node, leaves)
        return None if screen is None else self._native_screen(screen)


def _row_collector(
    native: ModuleType, path: RowPath, context: dict[str, object], now: Callable[[], int]
) -> Any:
    """The native row collector of one sink, which empties it by itself."""

    def label(node: OpNode, io: Io, slot: int, tensor: torch.Tensor) -> Any:
        return path.label(node, TorchView(tensor, io, slot))

    def unusual(node: OpNode, io: Io, slot: int, tensor: torch.Tensor, timestamp: int) -> None:
        path.unusual(node, TorchView(tensor, io, slot), timestamp)

    collector = native.RowCollector(
        **context,
        **_summary(outline=path.outline),
        label=label,
        unusual=unusual,
        now=now,
        takes_inputs=path.takes_inputs,
        takes_outputs=path.takes_outputs,
    )
    path.use(collector)
    return collector


class FastPaths:
    """Decides which ops take which fast path. Used from the training thread only.

    ``foreign`` are the storages that may change without an observed op, ``met`` the leaves emitted
    in this step. Native code reads both sets, and adds to ``met`` the leaves of an op that raised.
    """

    def __init__(
        self, session: Session, now: Callable[[], int], foreign: set[int], met: set[TensorRef]
    ) -> None:
        self._collectors: dict[Subscription, Any] = {}
        self._screens: dict[Subscription, _Screens] = {}
        self._screened: set[OpRecord] = set()
        native = matcher.load()
        if native is None:
            return
        context: dict[str, object] = {"codes": kernel_codes(), "foreign": foreign, "met": met}
        for subscription in session.subscriptions:
            path = subscription.sink.fast_path()
            if isinstance(path, RowPath):
                self._collectors[subscription] = _row_collector(native, path, context, now)
            elif isinstance(path, ScreenPath):
                self._screens[subscription] = _Screens(native, path, context)

    def begin_step(self) -> None:
        for screens in self._screens.values():
            screens.screening.begin_step()

    def offer(self, record: OpRecord) -> None:
        """Let ``record`` take the fast path of the one subscription that wants it, if any."""
        self._screened.discard(record)
        path = self._path_of(record)
        if path is None or record.native is None:
            return
        record.native.use_fast_path(
            path,
            record.node,
            tuple(
                source if is_filled else False
                for source, is_filled in zip(record.sources, record.filled, strict=True)
            ),
            tuple(False if ref.is_unfilled else ref for _, ref in record.outs),
            record.info.rearranges,
            tuple(
                (slot, leaf.ref, leaf.node)
                for slot, leaf, _ in record.leaves
                if leaf.wants is not None
            ),
            record.writes,
        )

    def every_op(self, subscription: Subscription | None) -> Any:
        """The native screen of a subscription that wants every op; None if screens differ."""
        screens = None if subscription is None else self._screens.get(subscription)
        return None if screens is None else screens.every_op()

    def is_screened(self, record: OpRecord) -> bool:
        """Whether only some runs of ``record`` reach the sink."""
        return record in self._screened

    def _path_of(self, record: OpRecord) -> Any:
        """The native fast path of ``record``, or None; notes whether it is a screen."""
        wants = record.wants
        if wants is None or len(wants.subscriptions) != 1 or record.info.is_collective:
            return None
        wanted_leaves = [leaf for _, leaf, _ in record.leaves if leaf.wants is not None]
        if any(
            leaf.wants is not None and leaf.wants.subscriptions != wants.subscriptions
            for leaf in wanted_leaves
        ):
            return None
        (subscription,) = wants.subscriptions
        screens = self._screens.get(subscription)
        if screens is None:
            return self._collectors.get(subscription)
        path = screens.path_of(record, [leaf.node for leaf in wanted_leaves])
        if path is not None:
            self._screened.add(record)
        return path


def _summary(*, outline: bool) -> dict[str, object]:
    """The kernels that compute a row."""
    if outline:
        return {"contiguous": kernels.outline_into, "strided": kernels.outline_strided_into}
    return {"contiguous": kernels.summarize_into, "strided": kernels.summarize_strided_into}


def _is_unusual_wanted(
    node: OpNode, io: Io, slot: int, tensor: torch.Tensor, is_tested: bool
) -> bool:
    """Whether a tensor that native code cannot read lets its op through to the sink.

    One that was to be tested does: the sink then reports that it cannot be judged.
    """
    return is_tested or TorchView(tensor, io, slot).non_finite() > 0


class Arena:
    """Memory for copies that are needed only until the op that is about to run has run.

    It is used again for every op, so that copying stays in the processor's cache. Contiguous memory
    on the host is copied by the native screen itself.
    """

    def __init__(self) -> None:
        self._block = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def copies(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The values as they are now, until the next call."""
        self._used = 0
        needed = sum(map(_room, tensors))
        if needed > self._block.numel():
            self._block = torch.empty(needed, dtype=torch.uint8, device="cpu")
        return [self._copy(tensor) for tensor in tensors]

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy; a tensor that cannot be copied is returned itself, and its view reports why."""
        room = _room(tensor)
        try:
            plain = tensor.detach()
            if not room:
                return plain.clone()
            size = plain.numel() * plain.element_size()
            block = self._block[self._used : self._used + size]
            self._used += room
            return block.view(plain.dtype).view(plain.shape).copy_(plain)
        except (NotImplementedError, RuntimeError) as error:
            pass_on(error)
            return tensor


def _room(tensor: torch.Tensor) -> int:
    """Bytes of a copy, in whole cache lines; 0 if the tensor must be cloned instead."""
    try:
        if tensor.device.type != "cpu" or tensor.is_neg() or tensor.is_quantized:
            return 0
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            return 0  # Such as DTensor, which cannot be copied to a plain tensor.
        return -(-tensor.numel() * tensor.element_size() // 64) * 64
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return 0
