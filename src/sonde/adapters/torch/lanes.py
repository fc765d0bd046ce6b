"""The native shortcut for sinks that want only numbers of every tensor.

A sink that can take it has a method ``take_lane``, which is given the parts it needs and returns
those the shortcut needs. One that wants only some runs of an op has a method ``screen``, too, which
says which. It is taken by ops that this sink alone wants; every other op, and every
op where the native matcher was not built, goes the long way round, through views and calls, with
the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from sonde import kernels
from sonde.adapters.torch import matcher
from sonde.adapters.torch.structure import Record, Ref
from sonde.adapters.torch.views import TorchView, kernel_codes
from sonde.capture.session import Session, Subscription
from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.sink import LaneParts, Screen

_MOST_SCREENS = 1000


class Lanes:
    """Which subscriptions have a shortcut. Used from the training thread only."""

    def __init__(
        self, session: Session, now: Callable[[], int], foreign: set[int], met: set[Ref]
    ) -> None:
        self._now = now
        self._foreign = foreign
        self._met = met
        self._native = matcher.load()
        self._by_subscription: dict[Subscription, Any] = {}
        self._by_screen: dict[tuple[Subscription, Screen], Any] = {}
        # The lane each op was offered last.
        self._offered: dict[Record, Any] = {}
        if self._native is not None:
            for subscription in session.subscriptions:
                parts = getattr(subscription.sink, "lane_parts", lambda: None)()
                if parts is not None:
                    lane = self._lane(parts)
                    subscription.sink.take_lane(lane)  # type: ignore[attr-defined]
                    self._by_subscription[subscription] = lane

    def _lane(self, parts: LaneParts) -> Any:
        def describe(node: OpNode, io: Io, slot: int, tensor: torch.Tensor) -> tuple[bytes, bytes]:
            return parts.describe(node, TorchView(tensor, io, slot, None, None))

        def other(node: OpNode, io: Io, slot: int, tensor: torch.Tensor, stamp: int) -> bool:
            return parts.other(node, TorchView(tensor, io, slot, None, None), stamp)

        assert self._native is not None
        return self._native.Lane(
            heads=parts.heads,
            tails=parts.tails,
            stamps=parts.stamps,
            index=parts.index,
            codes=kernel_codes(),
            whole=parts.whole,
            strided=parts.strided,
            describe=describe,
            other=other,
            now=self._now,
            grow=parts.grow,
            foreign=self._foreign,
            met=self._met,
            takes_inputs=parts.takes_inputs,
            takes_outputs=parts.takes_outputs,
            is_watch=parts.is_watch,
        )

    def offer(self, record: Record) -> None:
        """Let ``record`` take the shortcut of the one subscription that wants it, if it has one."""
        lane = self._offered[record] = self._lane_of(record)
        if lane is None or record.native is None:
            return
        record.native.take_lane(
            lane,
            record.node,
            tuple(
                source if is_filled else False
                for source, is_filled in zip(record.sources, record.filled, strict=True)
            ),
            tuple(False if ref.is_loose else ref for _, ref in record.outs),
            record.info.rearranges,
            tuple(
                (slot, leaf.ref, leaf.node)
                for slot, leaf, _ in record.leaves
                if leaf.wants is not None
            ),
            record.writes,
        )

    def is_watched(self, record: Record) -> bool:
        """Whether ``record`` goes by a shortcut that only watches for non-finite values."""
        lane = self._offered.get(record)
        return lane is not None and bool(lane.is_watch)

    def _lane_of(self, record: Record) -> Any:
        wants = record.wants
        if wants is None or len(wants.subscriptions) != 1 or record.info.is_collective:
            return None
        if any(
            leaf.wants is not None and leaf.wants.subscriptions != wants.subscriptions
            for _, leaf, _ in record.leaves
        ):
            return None
        (subscription,) = wants.subscriptions
        lane = self._by_subscription.get(subscription)
        choose = getattr(subscription.sink, "screen", None)
        if lane is None or choose is None:
            return lane
        leaves = [leaf.node for _, leaf, _ in record.leaves if leaf.wants is not None]
        return self._screened(subscription, lane, choose(record.node, leaves))

    def _screened(self, subscription: Subscription, lane: Any, screen: Screen | None) -> Any:
        """The lane of a watch for what does not pass ``screen``; None if all is wanted."""
        if screen is None:
            return None
        if not screen.tests:
            return lane
        known = self._by_screen.get((subscription, screen))
        if known is not None:
            return known
        if len(self._by_screen) >= _MOST_SCREENS:
            self._by_screen.clear()

        def other(node: OpNode, io: Io, slot: int, tensor: torch.Tensor, stamp: int) -> bool:
            if io == "output":
                return True  # Who asks about it is told that it cannot be judged.
            return TorchView(tensor, io, slot, None, None).non_finite() > 0

        made = self._by_screen[subscription, screen] = lane.screened(
            kernels.outline_into if screen.outline else kernels.summarize_into,
            kernels.outline_strided_into if screen.outline else kernels.summarize_strided_into,
            other,
            screen.takes_inputs,
            screen.tests,
        )
        return made


class Arena:
    """Memory for copies that are needed only until the op that is about to run has run.

    It is used again for every op, so that copying stays in the processor's cache. What is plain
    memory the native shortcut copies by itself.
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
        """A copy; what cannot be copied is left to the view to explain."""
        room = _room(tensor)
        try:
            plain = tensor.detach()
            if not room:
                return plain.clone()
            size = plain.numel() * plain.element_size()
            block = self._block[self._used : self._used + size]
            self._used += room
            return block.view(plain.dtype).view(plain.shape).copy_(plain)
        except (NotImplementedError, RuntimeError):
            return tensor


def _room(tensor: torch.Tensor) -> int:
    """Bytes for a copy, whole lines of the cache; 0 where it must be made in another way."""
    try:
        if tensor.device.type != "cpu" or tensor.is_neg() or tensor.is_quantized:
            return 0
        return -(-tensor.numel() * tensor.element_size() // 64) * 64
    except (NotImplementedError, RuntimeError):
        return 0
