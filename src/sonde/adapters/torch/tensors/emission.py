"""Turns ops that ran into the calls that a session's sinks receive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.op_tree import FRESH, OpRecord, TensorRef
from sonde.adapters.torch.eager.step_inputs import storage_key
from sonde.adapters.torch.eager.step_tables import Tables
from sonde.adapters.torch.tensors.fast_path import Arena, FastPaths
from sonde.adapters.torch.tensors.lending import Loans
from sonde.adapters.torch.tensors.unusual_layouts import local_part
from sonde.adapters.torch.tensors.view import TorchCall, TorchView
from sonde.capture.session import Session
from sonde.core.interruption import pass_on

Seen = tuple[OpRecord, list[torch.Tensor], list[int], list[torch.Tensor]]
"""An op about to run: its record, its tensors, their storages, its inputs as they are now."""


class _Kept(list[torch.Tensor]):
    """Inputs of an op that writes, copied where it writes.

    ``tokens`` are those of the originals from before the op. For a screened op they are empty, and
    computed later if the screen lets it through, which is rare.
    """

    __slots__ = ("originals", "tokens")
    originals: list[torch.Tensor]
    tokens: list[TensorRef | None]

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__(tensors)
        self.tokens = []


class Emitter:
    """Finds the consumers that want an op, and emits it. Used from the training thread only.

    ``raisers`` are the wanted ops that raised in this step.
    """

    def __init__(self, session: Session, tables: Tables, loans: Loans) -> None:
        self._session = session
        self._tables = tables
        self._loans = loans
        self._round = 0
        # Step inputs emitted in this step; the op that met one may have raised.
        self._met: set[TensorRef] = set()
        self.raisers: list[OpRecord] = []
        self._fast_paths = FastPaths(session, tables.now, loans.foreign, self._met)
        self._arena = Arena()

    def begin_step(self) -> None:
        self._round += 1
        self._met.clear()
        self.raisers.clear()
        self._fast_paths.begin_step()

    def every_op(self) -> Any:
        """The native screen of the only consumer, if it wants every op; else None."""
        return self._fast_paths.every_op(self._session.consumer_of_every_op())

    def find_wants(self, record: OpRecord) -> None:
        """Find the consumers of ``record`` and of its inputs, until the session's generation
        changes.

        Called from three places, each after comparing generations: before the op, for its step
        inputs and the copies of inputs it overwrites; after the op, if its record was completed,
        since a selection may name its outputs; and by the native matcher, whose node has a copy of
        the generation.
        """
        session = self._session
        # Between two steps no consumer answers: it is asked again when the op next runs.
        generation = session.generation if session.is_step_running else -1
        record.wants_generation = generation
        record.wants = session.wants(record.node)
        is_leaf_wanted = False
        for _, leaf, _ in record.leaves:
            leaf.wants = session.wants(leaf.node)
            is_leaf_wanted |= leaf.wants is not None
        if record.native is not None:
            record.native.set_wants(generation, record.wants is not None, is_leaf_wanted)
            self._fast_paths.offer(record)

    def emit_leaves(self, record: OpRecord, tensors: list[torch.Tensor]) -> None:
        """Emit the step inputs that this op is the first in the step to read."""
        for slot, leaf, order in record.leaves:
            if leaf.wants is not None and leaf.ref not in self._met:
                self._met.add(leaf.ref)
                tensor = tensors[slot]
                # Memory that its first op only writes to may never have been filled, if it was
                # made before the first observed step.
                is_old = leaf.is_lasting or self._session.coverage.steps > 0
                is_read = is_old or slot not in record.overwrites
                is_filled = is_read and not leaf.ref.is_unfilled
                token = self._made(leaf.ref, tensor)
                view = TorchView(tensor, "output", 0, token, None, is_filled)
                call = TorchCall(
                    leaf.node, self._session.step, order, self._tables.now(), (), (view,)
                )
                self._session.write(leaf.wants, call)

    def keep_written(
        self, record: OpRecord, tensors: list[torch.Tensor], keys: list[int]
    ) -> list[torch.Tensor]:
        """Before an op that writes: notify holds of lent memory, and copy old values if wanted."""
        written = {keys[slot] for slot in record.writes}
        for key in written:
            self._loans.notify_holds(key)
        if record.wants is None:
            return tensors
        kept = _Kept(tensors)
        slots = [slot for slot, key in enumerate(keys) if key in written]
        if self._fast_paths.is_screened(record):
            copies = self._arena.copies([tensors[slot] for slot in slots])
            for slot, copy in zip(slots, copies, strict=True):
                kept[slot] = copy
        else:
            kept.tokens = self.tokens(record, tensors)
            for slot in slots:
                is_known = self._is_known(record, slot, tensors[slot], kept.tokens[slot])
                kept[slot] = _detached(tensors[slot], copies=not is_known)
        kept.originals = tensors
        return kept

    def restore_written(
        self,
        tensors: list[torch.Tensor],
        copies: Sequence[tuple[int, bytearray, torch.dtype, torch.Size]],
    ) -> list[torch.Tensor]:
        """The same as ``keep_written``, where the native screen has copied what is written."""
        kept = _Kept(tensors)
        for slot, values, dtype, shape in copies:
            if values:
                kept[slot] = torch.frombuffer(values, dtype=dtype).view(shape)
            else:
                kept[slot] = torch.empty(shape, dtype=dtype, device="cpu")
        kept.originals = tensors
        return kept

    def _is_known(
        self, record: OpRecord, slot: int, tensor: torch.Tensor, token: TensorRef | None
    ) -> bool:
        """Whether every consumer of this input got its values before in this step."""
        if token is None or record.wants is None:
            return False
        return self._session.has(record.wants, TorchView(tensor, "input", slot, token, None))

    def tokens(self, record: OpRecord, tensors: list[torch.Tensor]) -> list[TensorRef | None]:
        """The tokens of the inputs: references whose values are known unchanged, else None."""
        return [
            self._found(ref, tensor)
            for ref, tensor in zip(record.sources, tensors)  # noqa: B905 (hot, equal lengths)
        ]

    def emit(
        self,
        record: OpRecord,
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
                not ref.is_unfilled,
            )
            for slot, (tensor, (kind, ref)) in enumerate(zip(results, record.outs))  # noqa: B905
            if not record.info.is_pending
        ]
        self._session.write(record.wants, self._call(record, inputs, outputs, args, kwargs))

    def op_raised(
        self,
        seen: Seen,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
        error: BaseException,
    ) -> None:
        """Report an op that raised, with its inputs, to the consumers that asked for it."""
        record, _, _, before = seen
        if record.wants is not None:
            self.raisers.append(record)
            call = self._call(record, self._inputs(record, before), (), args, kwargs)
            self._session.op_failed(record.wants, call, error)

    def settle(self, record: OpRecord, result: Any, keys: list[int]) -> None:
        """After a collective, which may still be writing: wait for it if its values are wanted, and
        mark its memory as foreign."""
        if record.wants is not None:
            for item in result if isinstance(result, (tuple, list)) else (result,):
                wait = getattr(item, "wait", None)
                if callable(wait) and not isinstance(item, torch.Tensor):
                    wait()
        self._loans.mark_foreign(set(keys))

    def _call(
        self,
        record: OpRecord,
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

    def _inputs(self, record: OpRecord, before: list[torch.Tensor]) -> list[TorchView]:
        if type(before) is _Kept:
            tokens = before.tokens or self.tokens(record, before.originals)
        else:
            tokens = self.tokens(record, before)
        return [
            TorchView(tensor, "input", slot, token, None, is_filled)
            for slot, (tensor, token, is_filled) in enumerate(
                zip(before, tokens, record.filled)  # noqa: B905
            )
        ]

    # ------------------------------------------------- when two tensors are the same

    def _made(
        self, ref: TensorRef, tensor: torch.Tensor, *, is_new: bool = True
    ) -> TensorRef | None:
        """``ref`` as the token of what ``tensor`` holds now.

        The version of an output that is not ``is_new`` is taken late, when the tensor is next
        seen: torch counts a write in place, and lets a view share the count of its base, only
        after the dispatch has returned. Taken here it would be one too small, and the next check
        would report an unobserved write.
        """
        mark = self._mark(tensor)
        ref.mark = mark
        ref.version = private.version_of(tensor) if is_new else None
        ref.round = self._round
        return None if mark is None or ref.is_unfilled else ref

    def _found(self, ref: TensorRef | None, tensor: torch.Tensor) -> TensorRef | None:
        """``ref`` if ``tensor`` still holds the values that ``ref`` represents, else None.

        Which tensor an input is was learned once. Each time this checks that it is the same tensor
        in this step, not another view of the memory, and that no unobserved code wrote to it.
        """
        if ref is None or ref.is_unfilled:
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
        """What distinguishes views of memory; None for memory that may change without an op: a
        local part of a tensor may be written to by itself."""
        if self._loans.foreign and storage_key(tensor) in self._loans.foreign:
            return None
        if type(tensor) is not torch.Tensor and local_part(tensor) is not tensor:
            return None
        try:
            return (
                tensor.data_ptr(),
                tensor.shape,
                tensor.stride(),
                tensor.is_neg(),
                tensor.is_conj(),
            )
        except (NotImplementedError, RuntimeError) as error:
            pass_on(error)
            return None


def _detached(tensor: torch.Tensor, *, copies: bool) -> torch.Tensor:
    """A copy, or a tensor over the same memory that keeps its shape: some ops change it in place.

    A tensor that cannot be copied is returned as it is, and its view says why.
    """
    try:
        return tensor.detach().clone() if copies else tensor.detach()
    except (NotImplementedError, RuntimeError) as error:
        pass_on(error)
        return tensor
