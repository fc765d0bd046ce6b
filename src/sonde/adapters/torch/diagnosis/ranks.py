"""Observes what ranks do differently: weights, clipping, wrappers that are bypassed.

Ranks of one machine exchange their evidence through files in the temporary directory when the
training ends, so that no collective is added to the training.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch.calling_line import caller
from sonde.adapters.torch.diagnosis.loop.calls import OptimizerState, TrainingCalls, parameters_of
from sonde.adapters.torch.diagnosis.modules import ModuleCalls, RootCall
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.files.directories import make_directory
from sonde.core.finding import Finding, from_fields, with_lines
from sonde.core.graph import Source
from sonde.core.observation_variables import launched_rank
from sonde.core.patching import wrap
from sonde.core.text.problem_line import ProblemLine
from sonde.core.text.rank_numbers import ranks_text
from sonde.core.weak_table import WeakTable
from sonde.logs import say

COMPARED_STEPS = (0, 1, 2, 5, 10, 20, 30, 50)
COMPARED_ELEMENTS = 1 << 16
MOST_SEEDS = 16
SUMMED_STEPS = 10
PART_STEPS = 20
"""Steps in which calls of the parts of a wrapped module are looked for."""
WAIT_SECONDS = 20.0


def rank_of_process() -> tuple[int, int]:
    """The rank of this process and the number of ranks, from the launcher's variables."""
    rank, count = launched_rank(os.environ), os.environ.get("WORLD_SIZE", "")
    return (rank, int(count)) if rank is not None and count.isdecimal() else (0, 1)


@dataclass(slots=True, eq=False)
class RankEvidence:
    """Follows DistributedDataParallel, and compares ranks when the training has ended."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    training: TrainingCalls
    weights: dict[int, list[int]] = field(default_factory=dict)
    clips: dict[str, int] = field(default_factory=dict)
    seeds: list[tuple[str, int, str, int]] = field(default_factory=list)
    _wrapped: WeakTable[nn.Module, tuple[int, ...]] = field(default_factory=WeakTable)
    _fresh: dict[int, int] = field(default_factory=dict)
    _sizes: tuple[int, ...] = ()
    _sums: set[int] = field(default_factory=set)
    _reduced_copies: list[tuple[int, Source | None]] = field(default_factory=list)

    def install(self, undo: ExitStack) -> None:
        if not dist.is_available():
            return
        wrap(DistributedDataParallel, "__init__", self._around_init, undo)
        wrap(DistributedDataParallel, "no_sync", self._around_no_sync, undo)
        wrap(dist, "all_reduce", self._around_reduce, undo)
        wrap(torch, "manual_seed", self._around_seed, undo)
        self.modules.on_root.append(self.root_called)

    def _around_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(wrapper: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
            original(wrapper, module, *args, **kwargs)
            self._wrap(module)

        return make

    @shielded
    def _wrap(self, module: nn.Module) -> None:
        self._wrapped[module] = tuple(id(each) for each in module.parameters())
        self.recorder.event("ddp-made", caller(), type(module).__name__)

    def _around_no_sync(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def no_sync(wrapper: Any) -> Any:
            self._note("no-sync")
            return original(wrapper)

        return no_sync

    def _around_reduce(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def all_reduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._checksum_of_fresh(tensor)
            sizes = () if before is not None else self._sizes_of_fresh(tensor)
            result = original(tensor, *args, **kwargs)
            op = args[0] if args else kwargs.get("op", dist.ReduceOp.SUM)
            if before is not None:
                self._reduced(tensor, before, is_sum=op == dist.ReduceOp.SUM)
            elif sizes and op == dist.ReduceOp.SUM:
                self._reduced_together(tensor, sizes)
            return result

        return all_reduce

    def _around_seed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def manual_seed(seed: Any) -> Any:
            self._seeded(seed)
            return original(seed)

        return manual_seed

    @shielded
    def _seeded(self, seed: Any) -> None:
        if rank_of_process()[1] > 1 and not self.recorder.step and len(self.seeds) < MOST_SEEDS:
            source = caller()
            if source is not None:
                self.seeds.append((source.file, source.line, source.code, int(seed)))

    @shielded
    def _checksum_of_fresh(self, tensor: Any) -> int | None:
        """The checksum of a gradient as backward left it, or of a copy; else None. Values are
        compared, since ``.data`` and ``.detach()`` are other objects with other versions."""
        if not self._fresh or not isinstance(tensor, torch.Tensor):
            return None
        found = _checksum(tensor)
        return found if found in self._fresh else None

    @shielded
    def _sizes_of_fresh(self, tensor: Any) -> tuple[int, ...] | None:
        """The sizes of the gradients that are joined in the tensor, as backward left them."""
        if not self._fresh or self.recorder.step >= SUMMED_STEPS:
            return None
        if not isinstance(tensor, torch.Tensor) or tensor.dim() != 1:
            return None
        for sizes in (self._sizes, self._sizes[::-1]):
            if sum(sizes) == tensor.numel() and all(
                _checksum(part) in self._fresh for part in torch.split(tensor, list(sizes))
            ):
                return sizes
        return None

    @shielded
    def _reduced_together(self, tensor: torch.Tensor, sizes: tuple[int, ...]) -> None:
        self._sums.update(_checksum(part) for part in torch.split(tensor, list(sizes)))
        self._note("all_reduce")

    @shielded
    def _reduced(self, tensor: torch.Tensor, before: int, *, is_sum: bool) -> None:
        if tensor.data_ptr() != self._fresh[before]:
            self._reduced_copies.append((before, caller()))
        elif is_sum:
            self._sums.add(_checksum(tensor))
            self._note("all_reduce")

    @shielded
    def _note(self, name: str) -> None:
        self.recorder.event(name, caller())

    @shielded
    def root_called(self, call: RootCall, trained: bool) -> None:
        if not trained:
            return
        if call.module in self._wrapped:
            self.recorder.event("ddp-bypassed", call.source, type(call.module).__name__)
        elif self._wrapped and self.recorder.step < PART_STEPS:
            self._note_part(call)
        inner = getattr(call.module, "module", None)
        if isinstance(call.module, DistributedDataParallel) and isinstance(inner, nn.Module):
            known = self._wrapped.get(inner)
            self.recorder.event("ddp-called", None, type(inner).__name__)
            now = tuple(id(each) for each in inner.parameters() if each.requires_grad)
            if known is not None and not set(now) <= set(known):
                names = [name for name, each in inner.named_parameters() if id(each) not in known]
                self.recorder.event("ddp-params-replaced", call.source, " ".join(names[:4]))

    def _note_part(self, call: RootCall) -> None:
        """A call that is outermost: no wrapper runs around it. Another method of the wrapped module
        makes it, or the program calls the part itself."""
        for wrapped in self._wrapped:
            if any(each is call.module for each in wrapped.modules()):
                self.recorder.event("ddp-part-called", call.source, type(wrapped).__name__)

    @shielded
    def backward_ended(self) -> None:
        """Note the gradients as backward left them: a program may divide them before it sums."""
        if rank_of_process()[1] < 2 or self.recorder.step >= SUMMED_STEPS:
            return
        gradients = [
            each.grad
            for optimizer in list(self.training.states)
            for each in parameters_of(optimizer)
            if each.grad is not None and not each.grad.is_sparse
        ]
        self._fresh = {_checksum(each): each.data_ptr() for each in gradients}
        self._sizes = tuple(each.numel() for each in gradients)
        self._sums.clear()
        self._reduced_copies.clear()

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        if rank_of_process()[1] < 2:
            return
        step = state.seen.steps
        held = list(parameters_of(optimizer))
        if step in COMPARED_STEPS:
            self.weights.setdefault(step, []).extend(_checksum(each) for each in held)
        if self.recorder.step < SUMMED_STEPS and (self._sums or self._reduced_copies):
            self._note_gradients(held, state)

    def _note_gradients(self, held: list[torch.Tensor], state: OptimizerState) -> None:
        """Compare the gradients that the optimizer is about to use with the results of
        ``all_reduce``: used as they are, or not used at all."""
        dense = [each.grad for each in held if each.grad is not None and not each.grad.is_sparse]
        used = [_checksum(each) for each in dense]
        summed = sum(each in self._sums for each in used)
        if summed:
            self.recorder.event(
                "gradients-summed",
                state.seen.stepped,
                state.seen.name,
                tensors=summed,
                of=len(dense),
                of_ranks=rank_of_process()[1],
            )
        for before, source in self._reduced_copies:
            if before in used:
                self.recorder.event("reduced-copy-unused", source, state.seen.name)

    def exchange(self, own: Sequence[Finding]) -> dict[int, list[Finding]]:
        """Hand over the evidence and the ``own`` findings of this rank. On rank 0: compare the
        evidence of all ranks, and return the findings of the others, by rank."""
        rank, world = rank_of_process()
        here = _ranks_of_first_machine(world)
        if world < 2 or rank >= here:
            return {}
        for event in self.recorder.evidence.named("clip"):
            self.clips[str(event.source)] = event.count
        folder = _folder()
        make_directory(folder, mode=0o700)
        mine = {
            "weights": {str(step): sums for step, sums in self.weights.items()},
            "clips": self.clips,
            "seeds": self.seeds,
            "steps": self.recorder.evidence.steps,
            "findings": [with_lines(each) for each in own],
        }
        partial = folder / f".rank_{rank}.part"
        partial.write_text(json.dumps(mine))
        partial.replace(folder / f"rank_{rank}.json")
        if rank:
            return {}
        others = _wait_for(folder, here)
        for number, other in others.items():
            self._compare(number, mine, other)
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        folder.rmdir()
        if absent := set(range(1, world)) - others.keys():
            text = f"the findings are without those of {ranks_text(absent)}, which handed over none"
            say(ProblemLine(text, slug="diagnosis-ranks"))
        return {
            number: [from_fields(each) for each in other["findings"]]
            for number, other in sorted(others.items())
        }

    def _compare(self, number: int, mine: dict[str, Any], other: dict[str, Any]) -> None:
        differing: dict[int, int] = {}
        for step in sorted(mine["weights"], key=int):
            ours, theirs = mine["weights"][step], other["weights"].get(step)
            if theirs is not None and len(theirs) == len(ours):
                pairs = zip(ours, theirs, strict=True)
                differing[int(step)] = sum(left != right for left, right in pairs)
        first = next((step for step, count in differing.items() if count), None)
        if first is not None:
            self.recorder.event(
                "ranks-differ",
                None,
                "",
                rank=number,
                tensors=differing[first],
                of=len(mine["weights"][str(first)]),
                at=first,
                equal_later=sum(not count for step, count in differing.items() if step > first),
                compared=len(differing),
                moved=_moves(mine["weights"]),
                other_moved=_moves(other["weights"]),
            )
        for (file, line, code, ours), (*_, theirs) in zip(
            mine["seeds"], other["seeds"], strict=False
        ):
            if ours != theirs:
                source = Source(file, line, "", code)
                self.recorder.event(
                    "seed-differs", source, "manual_seed", rank_0=ours, other=theirs
                )
        for line in {*mine["clips"], *other["clips"]}:
            left, right = mine["clips"].get(line, 0), other["clips"].get(line, 0)
            if left != right:
                self.recorder.event(
                    "clip-differs", None, line, rank_0=left, other=right, rank=number
                )


def _moves(weights: dict[str, list[int]]) -> bool:
    """Whether the weights of a rank change at all."""
    return len({tuple(each) for each in weights.values()}) > 1


def _checksum(tensor: torch.Tensor) -> int:
    tensor = tensor.detach().reshape(-1)[:COMPARED_ELEMENTS]
    if tensor.device.type != "cpu" or tensor.dtype == torch.bfloat16:
        tensor = tensor.detach().float().cpu()
    return zlib.crc32(tensor.detach().contiguous().numpy().tobytes())


def _folder() -> Path:
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
    key = "|".join([*(os.environ.get(name, "") for name in names), str(os.getuid())])
    if "TORCHELASTIC_RUN_ID" in os.environ:
        key += f"|{os.getppid()}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"sonde-diagnose-{digest}"


def _ranks_of_first_machine(world: int) -> int:
    """How many ranks run on the machine of rank 0, as the launcher says; they are the first."""
    count = os.environ.get("LOCAL_WORLD_SIZE", "")
    return min(int(count), world) if count.isdecimal() and int(count) else world


def _wait_for(folder: Path, world: int) -> dict[int, dict[str, Any]]:
    """What the other ranks wrote, waiting a while for those that have not ended yet."""
    found: dict[int, dict[str, Any]] = {}
    end = time.monotonic() + WAIT_SECONDS
    while len(found) < world - 1 and time.monotonic() < end:
        for number in range(1, world):
            file = folder / f"rank_{number}.json"
            if number not in found and file.exists():
                found[number] = json.loads(file.read_text())
        time.sleep(0.05)
    return found
