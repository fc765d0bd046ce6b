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
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch.diagnosis.calls import OptimizerState, TrainingCalls, parameters_of
from sonde.adapters.torch.diagnosis.modules import ModuleCalls, RootCall
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, caller, shielded
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable

COMPARED_STEPS = (0, 1, 2, 5, 10)
SUMMED_STEPS = 10
WAIT_SECONDS = 20.0


def rank_of_process() -> tuple[int, int]:
    """The rank of this process and the number of ranks, from the launcher's variables."""
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1


@dataclass(slots=True, eq=False)
class RankEvidence:
    """Follows DistributedDataParallel, and compares ranks when the training has ended."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    training: TrainingCalls
    weights: dict[int, list[int]] = field(default_factory=dict)
    clips: dict[str, int] = field(default_factory=dict)
    _wrapped: WeakTable[nn.Module, tuple[int, ...]] = field(default_factory=WeakTable)
    _reduced: dict[int, int] = field(default_factory=dict)
    _fresh: dict[int, int] = field(default_factory=dict)

    def install(self, undo: ExitStack) -> None:
        if not dist.is_available():
            return
        wrap(DistributedDataParallel, "__init__", self._around_init, undo)
        wrap(dist, "all_reduce", self._around_reduce, undo)
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

    def _around_reduce(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def all_reduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            is_fresh = (
                isinstance(tensor, torch.Tensor)
                and self._fresh.get(id(tensor), -1) == tensor._version
            )
            result = original(tensor, *args, **kwargs)
            op = args[0] if args else kwargs.get("op", dist.ReduceOp.SUM)
            if is_fresh and op == dist.ReduceOp.SUM:
                self._note_sum()
                self._reduced[id(tensor)] = tensor._version
                if len(self._reduced) > 4096:
                    self._reduced.clear()
            return result

        return all_reduce

    @shielded
    def _note_sum(self) -> None:
        self.recorder.event("all_reduce", caller())

    @shielded
    def root_called(self, call: RootCall, trained: bool) -> None:
        if not trained:
            return
        if call.module in self._wrapped:
            self.recorder.event("ddp-bypassed", call.source, type(call.module).__name__)
        inner = getattr(call.module, "module", None)
        if isinstance(call.module, DistributedDataParallel) and isinstance(inner, nn.Module):
            known = self._wrapped.get(inner)
            now = tuple(id(each) for each in inner.parameters() if each.requires_grad)
            if known is not None and not set(now) <= set(known):
                names = [name for name, each in inner.named_parameters() if id(each) not in known]
                self.recorder.event("ddp-params-replaced", call.source, " ".join(names[:4]))

    @shielded
    def backward_ended(self) -> None:
        """Note the gradients as backward left them: a program may divide them before it sums."""
        if rank_of_process()[1] < 2 or self.recorder.step >= SUMMED_STEPS:
            return
        self._fresh = {
            id(each.grad): each.grad._version
            for optimizer in list(self.training.states)
            for each in parameters_of(optimizer)
            if each.grad is not None
        }

    @shielded
    def before_step(self, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
        if rank_of_process()[1] < 2:
            return
        step = state.seen.steps
        held = list(parameters_of(optimizer))
        if step in COMPARED_STEPS:
            self.weights.setdefault(step, []).extend(_checksum(each) for each in held)
        if self._reduced and self.recorder.step < SUMMED_STEPS:
            raw = [
                each
                for each in held
                if each.grad is not None and self._reduced.get(id(each.grad)) == each.grad._version
            ]
            if raw:
                self.recorder.event(
                    "gradients-summed",
                    state.seen.stepped,
                    state.seen.name,
                    tensors=len(raw),
                    of=sum(each.grad is not None for each in held),
                    ranks=rank_of_process()[1],
                )
        self._reduced.clear()

    def finish(self) -> None:
        """Exchange the evidence; rank 0 compares."""
        rank, world = rank_of_process()
        if world < 2:
            return
        for event in self.recorder.evidence.named("clip"):
            self.clips[str(event.source)] = event.count
        folder = _folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        mine = {
            "weights": {str(step): sums for step, sums in self.weights.items()},
            "clips": self.clips,
            "steps": self.recorder.evidence.steps,
        }
        partial = folder / f".rank_{rank}.part"
        partial.write_text(json.dumps(mine))
        partial.replace(folder / f"rank_{rank}.json")
        if rank:
            return
        others = _wait_for(folder, world)
        for number, other in others.items():
            self._compare(number, mine, other)
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        folder.rmdir()

    def _compare(self, number: int, mine: dict[str, Any], other: dict[str, Any]) -> None:
        for step in sorted(mine["weights"], key=int):
            ours, theirs = mine["weights"][step], other["weights"].get(step)
            if theirs is None or len(theirs) != len(ours):
                continue
            different = sum(left != right for left, right in zip(ours, theirs, strict=True))
            if different:
                self.recorder.event(
                    "ranks-differ",
                    None,
                    "",
                    rank=number,
                    tensors=different,
                    of=len(ours),
                    at=int(step),
                )
                break
        for line in {*mine["clips"], *other["clips"]}:
            left, right = mine["clips"].get(line, 0), other["clips"].get(line, 0)
            if left != right:
                self.recorder.event(
                    "clip-differs", None, line, rank_0=left, other=right, rank=number
                )


def _checksum(tensor: torch.Tensor) -> int:
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
