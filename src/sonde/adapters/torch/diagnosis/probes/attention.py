"""Looks at the masks of attention in one call: which keys are visible, compared with padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.diagnosis.modules import RootCall, tensors_in
from sonde.core.graph import Source

HIDDEN = -1e4
"""Scores at or below it are masked: additive masks use -10000 and lower."""
FEWEST_ROWS = 3
MOST_ADDED = 8
"""Keys that a module puts before or behind those of its input, such as a token for the class."""
SOFTMAX = ("softmax", "_softmax")
FUSED = "scaled_dot_product_attention"
WHOLE = "multi_head_attention_forward"


@dataclass(slots=True, eq=False)
class Attention:
    """One softmax over keys, or one fused attention. ``visible``: for each row of the batch (and
    head) the keys that a query may see, None without a mask; ``result``: what it computed."""

    name: str
    visible: torch.Tensor | None
    result: torch.Tensor
    source: Source | None


def attention_of(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any, source: Source | None
) -> Attention | None:
    """The attention that this call of a function is, as far as it can be one."""
    if isinstance(result, tuple) and result:
        result = result[0]
    if not isinstance(result, torch.Tensor) or result.dim() < 2:
        return None
    if name in SOFTMAX and args and isinstance(args[0], torch.Tensor):
        dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
        scores = args[0]
        if scores.dim() < 2 or dim not in (-1, scores.dim() - 1):
            return None
        hidden = scores <= HIDDEN
        return Attention(name, _keys(~hidden) if bool(hidden.any()) else None, result, source)
    if name == FUSED:
        mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
        return Attention(name, _keys(_seen(mask, hides=False)), result, source)
    if name == WHOLE:
        mask = kwargs.get("key_padding_mask")
        return Attention(name, _keys(_seen(mask, hides=True)), result, source)
    return None


def _seen(mask: Any, *, hides: bool) -> torch.Tensor | None:
    """``hides``: whether True hides a key; additive masks hide by large negative numbers."""
    if not isinstance(mask, torch.Tensor) or mask.dim() < 2:
        return None
    if mask.dtype == torch.bool:
        return ~mask if hides else mask
    return mask > HIDDEN


def _keys(seen: torch.Tensor | None) -> torch.Tensor | None:
    """The keys that any query of a row of the batch may see: a matrix (batch, keys)."""
    if seen is None:
        return None
    while seen.dim() > 2:
        seen = seen.any(dim=1)
    return seen


def padding_of(call: RootCall) -> torch.Tensor | None:
    """Where the input is padding: a matrix (batch, positions); None if that is unknown. Padding is
    what an embedding declares, or a value (or rows of zeros) that fills only the ends of rows."""
    tensors = tensors_in((call.args, call.kwargs))
    for tensor in tensors:
        if is_tokens(tensor):
            return padding_in(tensor, call.module)
        if tensor.dim() == 3 and tensor.is_floating_point():
            empty = tensor.eq(0).all(-1)
            return empty if _is_at_end(empty) else None
    return None


def is_tokens(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a matrix of integers: a row of tokens for each sample."""
    return tensor.dim() == 2 and tensor.dtype in (torch.int64, torch.int32)


def padding_in(tokens: torch.Tensor, module: nn.Module) -> torch.Tensor | None:
    """Where ``tokens`` are padding, by what embeddings declare or by the ends of rows."""
    declared = [
        each.padding_idx
        for each in module.modules()
        if isinstance(each, nn.Embedding) and each.padding_idx is not None
    ]
    found = tokens.eq(declared[0]) if declared else end_padding(tokens)
    return found if found is not None and bool(found.any()) else None


def end_padding(ids: torch.Tensor) -> torch.Tensor | None:
    """Where ``ids`` are padding: one value fills the ends of at least a quarter of the rows, at
    different lengths, and occurs nowhere else."""
    if ids.shape[0] < FEWEST_ROWS or ids.shape[1] < 3:
        return None
    value = ids[:, -1].mode().values
    found = ids.eq(value)
    return found if _is_at_end(found) else None


def _is_at_end(found: torch.Tensor) -> bool:
    tails = found.flip(1).long().cumprod(1).sum(1)
    has = int((tails >= 2).sum())
    return (
        has >= max(FEWEST_ROWS, found.shape[0] // 4)
        and int(tails.sum()) == int(found.sum())
        and int(tails.min()) < int(tails.max()) < found.shape[1]
    )


def inverted(
    attentions: Sequence[Attention], padding: torch.Tensor | None, batch: int
) -> Iterator[tuple[Attention, int]]:
    """The attentions that see padding and nothing else in the first ``batch`` rows, with the number
    of rows that have both."""
    if padding is None:
        return
    padding = padding[:batch]
    batch, length = padding.shape
    mixed = padding.any(1) & ~padding.all(1)
    for each in attentions:
        visible = each.visible
        if visible is None or visible.shape[0] % batch:
            continue
        if not length <= visible.shape[1] <= length + MOST_ADDED:
            continue
        first = visible.view(batch, -1, visible.shape[1])[:, 0]
        for start in {0, visible.shape[1] - length}:
            seen = first[:, start : start + length]
            rows = int((seen.eq(padding).all(1) & mixed).sum())
            if rows and rows == int(mixed.sum()):
                yield each, rows
                break


def leaking(
    first: Sequence[Attention], second: Sequence[Attention], length: int
) -> Attention | None:
    """The first attention whose results at early positions depend on the last one."""
    for one, two in zip(first, second, strict=False):
        left, right = one.result, two.result
        if left.shape != right.shape or left.dim() < 3 or left.shape[-2] != length:
            continue
        scale = float(left.abs().max()) or 1.0
        if float((left[..., :-1, :] - right[..., :-1, :]).abs().max()) > 1e-5 * scale:
            return one
    return None
