"""Checks that all ranks begin with the same weights.

Ranks that average gradients but start from different weights train different networks, and no
error says so. Each rank hashes its weights, and the hashes are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import xxhash
from torch import nn

from sonde.core.arguments import check_value_type
from sonde.core.finding import Finding
from sonde.core.text.number_text import count_text
from sonde.train.ranks import gather, is_sharded, rank_count

Digest = tuple[str, tuple[int, ...], int]
"""Type, shape and hash of the elements of a tensor."""

_ADVICE = (
    "set the same seed on every rank before the network is made (sonde.set_seed(1)), or wrap it in "
    "DistributedDataParallel, which copies the weights of rank 0"
)


@dataclass(frozen=True, slots=True)
class RankReport:
    """The weights that are not the same on all ranks. True if all are.

    ``sharded`` are weights of which each rank holds a part; they are not compared.
    """

    ranks: int
    checked: int
    findings: tuple[Finding, ...]
    sharded: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        if self:
            ranks = count_text(self.ranks, "rank")
            return f"{count_text(self.checked, 'weight')} are the same on {ranks}"
        head = f"weights of ranks differ: {len(self.findings)} of {self.checked}"
        return "\n".join([head, *(finding.message for finding in self.findings)])


def check_ranks(network: nn.Module) -> RankReport:
    """Compare the weights and buffers of ``network`` on all ranks, bit for bit.

    Every rank must call it, after the process group is initialized, and gets the same report; in a
    single process there is nothing to compare.
    """
    check_value_type("network", network, nn.Module, "check_ranks")
    own = network.state_dict()
    sharded = tuple(name for name, value in own.items() if is_sharded(value))
    digests = {
        name: _digest(value)
        for name, value in own.items()
        if isinstance(value, torch.Tensor) and name not in sharded
    }
    found = gather(digests)
    names = list(dict.fromkeys(name for each in found for name in each))
    findings = (_difference(name, [each.get(name) for each in found]) for name in names)
    listed = tuple(finding for finding in findings if finding is not None)
    return RankReport(rank_count(), len(names), listed, sharded)


def _digest(tensor: torch.Tensor) -> Digest:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    elements: Any = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else b""
    return str(plain.dtype), tuple(plain.shape), xxhash.xxh3_64_intdigest(elements)


def _difference(name: str, digests: list[Digest | None]) -> Finding | None:
    """The finding about one weight; ranks are compared with the first that has it."""
    first = next(index for index, digest in enumerate(digests) if digest is not None)
    reference = digests[first]
    assert reference is not None
    absent = [index for index, digest in enumerate(digests) if digest is None]
    others = [index for index, digest in enumerate(digests) if digest not in (None, reference)]
    if absent:
        message = f"{name}: {_listed(absent)} no such weight, rank {first} has"
    elif not others:
        return None
    else:
        shapes = {digest[:2] for digest in digests if digest is not None}
        what = "other values" if len(shapes) == 1 else "another type or shape"
        message = f"{name}: {_listed(others)} {what} than rank {first}"
    evidence = {"ranks": tuple(absent or others), "reference": first}
    return Finding(
        "replicas-differ", "error", message, status="established", advice=_ADVICE, evidence=evidence
    )


def _listed(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} has"
    return f"ranks {', '.join(map(str, ranks))} have"
