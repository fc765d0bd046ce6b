"""From ops that ran to the calls a session's sinks are handed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.lanes import Arena, Lanes
from sonde.adapters.torch.leaves import storage_key
from sonde.adapters.torch.lending import Loans
from sonde.adapters.torch.memory import Tables
from sonde.adapters.torch.structure import FRESH, Record, Ref
from sonde.adapters.torch.views import TorchCall, TorchView
from sonde.capture.session import Session

Seen = tuple[Record, list[torch.Tensor], list[int], list[torch.Tensor]]
"""An op about to run: its record, its tensors, their storages, its inputs as they are now."""


class _Kept(list[torch.Tensor]):
    """Inputs of an op that writes, copied where it writes.

    ``tokens`` are those of the originals from before the op. A watch, which seldom wants the op at
    all, leaves them to be found when it does.
    """

    __slots__ = ("originals", "tokens")
    originals: list[torch.Tensor]
    tokens: list[Ref | None]

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__(tensors)
        self.tokens = []


class Emitter:
    """Asks who wants an op, and hands it over. Used from the training thread only.

    ``raisers`` are the wanted ops that raised in this step.
    """

    def __init__(self, session: Session, tables: Tables, loans: Loans) -> None:
        self._session = session
        self._tables = tables
        self._loans = loans
        self._round = 0
        # Leaves handed over in this step; the op that met one may have raised.
        self._met: set[Ref] = set()
        self.raisers: list[Record] = []
        self._lanes = Lanes(session, tables.now, loans.foreign, self._met)
        self._arena = Arena()

    def begin_step(self) -> None:
        self._round += 1
        self._met.clear()
        self.raisers.clear()

    def ask(self, record: Record) -> None:
        """Find out who wants ``record`` and its leaves, until the session's generation changes."""
        session = self._session
        record.wants_generation = session.generation
        record.wants = session.wants(record.node)
        is_leaf_wanted = False
        for _, leaf, _ in record.leaves:
            leaf.wants_generation = session.generation
            leaf.wants = session.wants(leaf.node)
            is_leaf_wanted |= leaf.wants is not None
        if record.native is not None:
            record.native.asked(session.generation, record.wants is not None, is_leaf_wanted)
            self._lanes.offer(record)

    def leaves(self, record: Record, tensors: list[torch.Tensor]) -> None:
        """Hand over the tensors from outside that are met for the first time in this step."""
        for slot, leaf, order in record.leaves:
            if leaf.wants is not None and leaf.ref not in self._met:
                self._met.add(leaf.ref)
                tensor = tensors[slot]
                view = TorchView(tensor, "output", 0, self._made(leaf.ref, tensor), None)
                call = TorchCall(
                    leaf.node, self._session.step, order, self._tables.now(), (), (view,)
                )
                self._session.write(leaf.wants, call)

    def kept(
        self, record: Record, tensors: list[torch.Tensor], keys: list[int]
    ) -> list[torch.Tensor]:
        """Before an op that writes: make lent memory safe, and keep the old values if wanted."""
        written = {keys[slot] for slot in record.writes}
        for key in written:
            self._loans.call_back(key)
        if record.wants is None:
            return tensors
        kept = _Kept(tensors)
        slots = [slot for slot, key in enumerate(keys) if key in written]
        if self._lanes.is_watched(record):
            copies = self._arena.copies([tensors[slot] for slot in slots])
            for slot, copy in zip(slots, copies, strict=True):
                kept[slot] = copy
        else:
            kept.tokens = self.tokens(record, tensors)
            for slot in slots:
                is_known = self._is_known(record, slot, tensors[slot], kept.tokens[slot])
                kept[slot] = (_alias if is_known else _copy)(tensors[slot])
        kept.originals = tensors
        return kept

    def restored(
        self,
        tensors: list[torch.Tensor],
        copies: Sequence[tuple[int, bytearray, torch.dtype, torch.Size]],
    ) -> list[torch.Tensor]:
        """What ``kept`` gives, where the shortcut has copied what is written."""
        kept = _Kept(tensors)
        for slot, values, dtype, shape in copies:
            if values:
                kept[slot] = torch.frombuffer(values, dtype=dtype).view(shape)
            else:
                kept[slot] = torch.empty(shape, dtype=dtype, device="cpu")
        kept.originals = tensors
        return kept

    def _is_known(self, record: Record, slot: int, tensor: torch.Tensor, token: Ref | None) -> bool:
        """Whether everybody who wants this input has had its values before in this step."""
        if token is None or record.wants is None:
            return False
        return self._session.has(record.wants, TorchView(tensor, "input", slot, token, None))

    def tokens(self, record: Record, tensors: list[torch.Tensor]) -> list[Ref | None]:
        """What each input holds that was found before in this step, None where that is unknown."""
        return [
            self._found(ref, tensor)
            for ref, tensor in zip(record.sources, tensors)  # noqa: B905 (hot, equal lengths)
        ]

    def emit(
        self,
        record: Record,
        before: list[torch.Tensor],
        results: list[torch.Tensor],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
    ) -> None:
        assert record.wants is not None
        inputs = self._inputs(record, before)
        if record.info.rearranges and inputs and inputs[0].token is None:
            for _, ref in record.outs:
                ref.values = ref
        outputs = [
            TorchView(
                tensor,
                "output",
                slot,
                self._made(ref, tensor, is_new=kind == FRESH),
                self._loans.lender(tensor),
                is_filled=not ref.is_loose,
            )
            for slot, (tensor, (kind, ref)) in enumerate(zip(results, record.outs))  # noqa: B905
        ]
        self._session.write(record.wants, self._call(record, inputs, outputs, args, kwargs))

    def raised(
        self,
        seen: Seen,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
        error: BaseException,
    ) -> None:
        """An op raised: who asked for it learns with what inputs."""
        record, _, _, before = seen
        if record.wants is not None:
            self.raisers.append(record)
            call = self._call(record, self._inputs(record, before), (), args, kwargs)
            self._session.op_failed(record.wants, call, error)

    def settle(self, record: Record, result: Any, keys: list[int]) -> None:
        """A collective may still be writing: wait if its values are wanted, then trust nothing."""
        if record.wants is not None:
            for item in result if isinstance(result, (tuple, list)) else (result,):
                wait = getattr(item, "wait", None)
                if callable(wait) and not isinstance(item, torch.Tensor):
                    wait()
        self._loans.distrust(set(keys))

    def _call(
        self,
        record: Record,
        inputs: Sequence[TorchView],
        outputs: Sequence[TorchView],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
    ) -> TorchCall:
        return TorchCall(
            record.node,
            self._session.step,
            record.order,
            self._tables.now(),
            inputs,
            outputs,
            record,
            args,
            kwargs,
        )

    def _inputs(self, record: Record, before: list[torch.Tensor]) -> list[TorchView]:
        if type(before) is _Kept:
            tokens = before.tokens or self.tokens(record, before.originals)
        else:
            tokens = self.tokens(record, before)
        return [
            TorchView(
                tensor,
                "input",
                slot,
                token,
                None,
                is_filled=is_filled,
            )
            for slot, (tensor, token, is_filled) in enumerate(
                zip(before, tokens, record.filled)  # noqa: B905
            )
        ]

    # ------------------------------------------------- when two tensors are the same

    def _made(self, ref: Ref, tensor: torch.Tensor, *, is_new: bool = True) -> Ref | None:
        """``ref`` as the token of what ``tensor`` holds now.

        Torch counts a write in place, and lets a view share the count of what it is a view of,
        only after the op: such a version is taken from the tensor when it is next seen.
        """
        mark = self._mark(tensor)
        ref.mark = mark
        ref.version = private.version_of(tensor) if is_new else None
        ref.round = self._round
        return None if mark is None or ref.is_loose else ref

    def _found(self, ref: Ref | None, tensor: torch.Tensor) -> Ref | None:
        """``ref`` if ``tensor`` holds what was found under it before in this step, else None.

        Which tensor an input is was learned once. That it is the same one in this step, not
        another view of the same memory, and that nobody has written to it out of our sight is
        checked each time.
        """
        if ref is None or ref.is_loose:
            return None
        mark = self._mark(tensor)
        if mark is None:
            return None
        version = private.version_of(tensor)
        if ref.round != self._round:
            ref.mark = mark
            ref.round = self._round
        elif ref.mark != mark or (ref.version is not None and ref.version != version):
            return None
        ref.version = version
        return ref

    def _mark(self, tensor: torch.Tensor) -> tuple[Any, ...] | None:
        if self._loans.foreign and storage_key(tensor) in self._loans.foreign:
            return None
        try:
            return (
                tensor.data_ptr(),
                tensor.shape,
                tensor.stride(),
                tensor.is_neg(),
                tensor.is_conj(),
            )
        except (NotImplementedError, RuntimeError):
            return None


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that keeps the shape it has now: some ops change that in place."""
    try:
        return tensor.detach()
    except (NotImplementedError, RuntimeError):
        return tensor


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """The values as they are now; what cannot be copied is left to the view to explain."""
    try:
        return tensor.detach().clone()
    except (NotImplementedError, RuntimeError):
        return tensor
