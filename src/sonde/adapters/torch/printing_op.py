"""The op ``sonde::print``: how it is known to torch, and what it writes when it runs.

It has no outputs. Being registered as an op with ordered effects, it is neither removed as dead
code nor moved past another print, and runs once: in forward or in backward, where it was called.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from types import FrameType
from typing import Any

import torch
from torch.compiler import assume_constant_result

from sonde.adapters.torch import private
from sonde.adapters.torch.views import TorchView, name_of
from sonde.core.errors import CaptureError, SondeError
from sonde.core.statistics import describe
from sonde.core.tensor_text import is_elided, shown_indices, tensor_text, unreadable_text

LOGGER = "sonde.print"

# A text is a sequence of words; these say which, the first letter of a word.
TEXT = "s"
TENSOR = "t"
INTEGER = "i"
FLOAT = "f"
LINE_END = "n"

_SCHEMA = (
    "print(Tensor[] tensors, SymInt[] integers, str[] words, bool summary, int first, int every, "
    "bool to_log, str site) -> ()"
)
_counts: Counter[str] = Counter()
_lock = threading.Lock()


def show(
    tensors: Sequence[torch.Tensor],
    integers: Sequence[int],
    words: Sequence[str],
    summary: bool,
    first: int,
    every: int,
    to_log: bool,
    site: str,
) -> None:
    """Write the text of ``words``, if it is the turn of this place in the code.

    ``first`` 0 sets no limit. A tensor that cannot be read is said to be so; nothing is raised but
    what writing to stdout raises.
    """
    if not _is_due(first, every, site):
        return
    with private.unobserved(), torch.no_grad(), torch._C._DisableFuncTorch():
        text = _compose(tensors, integers, words, summary)
    prefix = _rank_prefix()
    if prefix:
        text = "\n".join(prefix + line for line in text.split("\n"))
    if to_log:
        _log(text)
    else:
        # One piece, so that lines of several processes do not mix.
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def _is_due(first: int, every: int, site: str) -> bool:
    if not first and every == 1:
        return True
    with _lock:
        count = _counts[site]
        _counts[site] += 1
    return count % every == 0 and (not first or count // every < first)


def _compose(
    tensors: Sequence[torch.Tensor], integers: Sequence[int], words: Sequence[str], summary: bool
) -> str:
    tensors_left, integers_left = iter(tensors), iter(integers)
    pieces: list[str] = []
    for word in words[:-1] if words and words[-1] == LINE_END else words:
        kind = word[0]
        if kind == TEXT:
            pieces.append(word[1:])
        elif kind == INTEGER:
            pieces.append(str(int(next(integers_left))))
        elif kind == FLOAT:
            pieces.append(str(next(tensors_left).item()))
        elif kind == TENSOR:
            pieces.append(_tensor_text(next(tensors_left), summary))
        else:
            pieces.append("\n")
    return "".join(pieces)


def _tensor_text(tensor: torch.Tensor, summary: bool) -> str:
    try:
        return _readable_text(_unwrapped(tensor), summary)
    except Exception as error:  # a shield: printing must not end a training
        return unreadable_text(name_of(tensor.dtype), tuple(tensor.shape), str(error))


def _readable_text(tensor: torch.Tensor, summary: bool) -> str:
    view = TorchView(tensor, "output", 0, None, None)
    if view.problem is not None:
        return unreadable_text(view.dtype, view.shape, view.problem)
    if summary:
        try:
            return describe(view.statistics(), view.dtype, view.shape)
        except SondeError:
            pass  # Complex numbers have no order: their elements are shown.
    shape = view.shape
    part = tensor.detach()
    if is_elided(shape):
        for axis, size in enumerate(shape):
            places = shown_indices(size)
            if len(places) < size:
                part = part.index_select(axis, torch.tensor(places, device=part.device))
    return tensor_text(view.dtype, shape, TorchView(part, "output", 0, None, None).numpy())


def _unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The plain tensor inside those of ``torch.func``."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def _rank_prefix() -> str:
    """``[rank 1] `` where there are several ranks."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        if torch.distributed.get_world_size() > 1:
            return f"[rank {torch.distributed.get_rank()}] "
        return ""
    count, rank = os.environ.get("WORLD_SIZE", ""), os.environ.get("RANK", "")
    if count.isdigit() and int(count) > 1 and rank.isdigit():
        return f"[rank {rank}] "
    return ""


def _log(text: str) -> None:
    from sonde import logs

    logs.configure()
    logger = logging.getLogger(LOGGER)
    if logger.level == logging.NOTSET:
        # Asked for by name: the default level of Sonde's logs, WARNING, does not silence it.
        logger.setLevel(logging.INFO)
    logger.info("%s", text)


def site_of(frame: FrameType) -> str:
    """The place in the code where ``frame`` stands, the same in every process."""
    code = frame.f_code
    line, column = frame.f_lineno, None
    if hasattr(code, "co_positions"):  # from Python 3.11 on
        line, _, column, _ = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    return f"{code.co_filename}:{line}:{column}"


@assume_constant_result  # type: ignore[untyped-decorator]
def traced_site() -> str:
    """The place in the user's code that the compiler is reading: the call of a print."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    reader: Any = InstructionTranslator.current_tx()
    while reader.parent is not None and reader.f_code.co_filename.startswith(_HERE):
        reader = reader.parent
    place = getattr(reader.current_instruction, "positions", None)
    line, column = (reader.lineno, None) if place is None else (place.lineno, place.col_offset)
    return f"{reader.f_code.co_filename}:{line}:{column}"


_HERE = os.path.splitext(os.path.abspath(__file__))[0].removesuffix("_op")


def _register() -> tuple[torch.library.Library, Callable[..., None]]:
    """Make the op known; the library must live as long as the op."""
    try:
        from torch._higher_order_ops.effects import _register_effectful_op
        from torch._library.effects import EffectType
    except ImportError as error:
        raise CaptureError(
            f"torch {torch.__version__} lacks what printing in compiled code needs ({error}); "
            "install a torch version that Sonde's package metadata allows",
            slug="torch-version",
        ) from None
    library = torch.library.Library("sonde", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define(_SCHEMA, tags=tuple(_tags()))  # type: ignore[no-untyped-call]
    library.impl("print", show, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake("sonde::print", lambda *_: None, lib=library)
    overload: Callable[..., None] = torch.ops.sonde.print.default
    _register_effectful_op("sonde::print", EffectType.ORDERED)
    return library, overload


def _tags() -> list[torch.Tag]:
    """A graph of CUDA cannot hold what reads values on the host."""
    return [getattr(torch.Tag, name) for name in ("cudagraph_unsafe",) if hasattr(torch.Tag, name)]


_library, emit = _register()
