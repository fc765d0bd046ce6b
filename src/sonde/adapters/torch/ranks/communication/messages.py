"""Reports what ranks send to each other, one to one, and what they receive.

``send``, ``isend``, ``recv``, ``irecv`` and ``batch_isend_irecv`` all call the methods of the
process group. The functions themselves are left alone: torch asks whether the ``op`` of a
``P2POp`` is ``isend`` or ``irecv``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.ranks.communication.pending_works import AwaitedWorks
from sonde.adapters.torch.ranks.digests import plain, tensor_digest
from sonde.adapters.torch.ranks.layout import group_name
from sonde.core.patching import wrap
from sonde.ranks.report import MessageReport, RankReport


@dataclass(slots=True, eq=False)
class MessageCalls:
    """Messages are counted in all steps, by group, both ranks and tag; in compared steps they are
    hashed, and ``send`` takes the reports. After ``recv`` from any rank in a group the messages
    that this rank gets there are left out: which one comes next is not known when it is called."""

    send: Callable[[RankReport], None]
    step: Callable[[], int]
    is_compared: Callable[[], bool]
    timed: Callable[[], AbstractContextManager[None]]
    works: AwaitedWorks
    shield: Any
    _counts: Counter[tuple[str, int, int, int]] = field(default_factory=Counter)
    _from_any: set[str] = field(default_factory=set)

    def install(self, undo: ExitStack) -> None:
        for name, make in (
            ("send", self._sending),
            ("recv", self._receiving),
            ("recv_anysource", self._receiving_from_any),
        ):
            patch = wrap(dist.ProcessGroup, name, make, undo)
            private.hide_from_compiler(patch.replacement)

    def _sending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def send(
            group: Any, tensors: Sequence[torch.Tensor], target: int, *more: Any, **kwargs: Any
        ) -> Any:
            with self.shield:
                report = self._counted(group, target, more, kwargs, is_sent=True)
                if report is not None:
                    with self.timed():
                        self._report(report, tensors)
            return original(group, tensors, target, *more, **kwargs)

        return send

    def _receiving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def recv(
            group: Any, tensors: Sequence[torch.Tensor], source: int, *more: Any, **kwargs: Any
        ) -> Any:
            report: MessageReport | None = None
            with self.shield:
                report = self._counted(group, source, more, kwargs, is_sent=False)
            work = original(group, tensors, source, *more, **kwargs)
            if report is not None:
                received = report

                def ended() -> None:
                    with self.timed():
                        self._report(received, tensors)

                self.works.add(work, ended)
            return work

        return recv

    def _receiving_from_any(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def recv_anysource(group: Any, *args: Any, **kwargs: Any) -> Any:
            with self.shield:
                self._from_any.add(group_name(group))
            return original(group, *args, **kwargs)

        return recv_anysource

    def _counted(
        self,
        group: Any,
        other: int,
        more: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        is_sent: bool,
    ) -> MessageReport | None:
        """Count a message; its report without the hash, if that is wanted."""
        own, name = dist.get_rank(), group_name(group)
        tag = kwargs.get("tag", more[0] if more else 0)
        other = dist.get_process_group_ranks(group)[other]
        source, target = (own, other) if is_sent else (other, own)
        key = (name, source, target, int(tag))
        sequence = self._counts[key]
        self._counts[key] += 1
        if not self.is_compared() or (not is_sent and name in self._from_any):
            return None
        return MessageReport(own, *key, sequence, 0, calling_line(), self.step())

    def _report(self, report: MessageReport, tensors: Sequence[torch.Tensor]) -> None:
        values = plain(tensors[0])
        if values is not None:
            # The receiver may have another shape for the same elements.
            digest = tensor_digest(values.reshape(-1))
            self.send(report.with_digest(digest))
