"""The op ``sonde::print``: its registration with torch, and the text it writes.

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

import torch
from torch.compiler import assume_constant_result

from sonde.adapters.torch.printing import private
from sonde.adapters.torch.printing.tensor_text import (
    is_elided,
    shown_indices,
    tensor_text,
    unreadable_text,
)
from sonde.adapters.torch.private import unobserved
from sonde.adapters.torch.tensors.view import TorchView, name_of
from sonde.core.errors import SondeError
from sonde.core.observation_variables import launched_rank
from sonde.core.statistics import describe

LOGGER = "sonde.print"

# A text is a sequence of words; the first letter of a word is its kind.
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
    """Write the text of ``words``, if ``first`` and ``every`` let this call of ``site`` print.

    ``first`` 0 sets no limit. For a tensor that cannot be read the text says why. Only errors of
    writing to stdout are raised.
    """
    if not _is_due(first, every, site):
        return
    with unobserved(), torch.no_grad(), private.without_functorch():
        text = _compose(tensors, integers, words, summary)
    prefix = _rank_prefix()
    if prefix:
        text = "\n".join(prefix + line for line in text.split("\n"))
    if to_log:
        _log(text)
    else:
        # One write, so that lines of several processes do not mix.
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
        return _readable_text(private.unwrapped(tensor), summary)
    except Exception as error:  # Printing must not end a training.
        return unreadable_text(name_of(tensor.dtype), tuple(tensor.shape), str(error))


def _readable_text(tensor: torch.Tensor, summary: bool) -> str:
    view = TorchView(tensor)
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
    return tensor_text(view.dtype, shape, TorchView(part).numpy())


def _rank_prefix() -> str:
    """``[rank 1] `` where there are several ranks."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        if torch.distributed.get_world_size() > 1:
            return f"[rank {torch.distributed.get_rank()}] "
        return ""
    count, rank = os.environ.get("WORLD_SIZE", ""), launched_rank(os.environ)
    if count.isdigit() and int(count) > 1 and rank is not None:
        return f"[rank {rank}] "
    return ""


def _log(text: str) -> None:
    from sonde import logs

    logs.configure()
    logger = logging.getLogger(LOGGER)
    if logger.level == logging.NOTSET:
        # ``to="log"`` was requested: the default level of Sonde's logs, WARNING, must not hide it.
        logger.setLevel(logging.INFO)
    logger.info("%s", text)


def site_of(frame: FrameType) -> str:
    """The position of ``frame`` in the code, the same in every process."""
    code = frame.f_code
    line, column = frame.f_lineno, None
    if hasattr(code, "co_positions"):  # from Python 3.11 on
        line, _, column, _ = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    return f"{code.co_filename}:{line}:{column}"


@assume_constant_result  # type: ignore[untyped-decorator]
def traced_site() -> str:
    """The position in the user's code that the compiler is tracing: the call of a print."""
    file, line, column = private.traced_position(_HERE)
    return f"{file}:{line}:{column}"


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _register() -> tuple[torch.library.Library, Callable[..., None]]:
    """Register the op; the library must live as long as the op."""
    library = torch.library.Library("sonde", "FRAGMENT")  # type: ignore[no-untyped-call]
    # Values cannot be read on the host inside CUDA graphs: the op is kept out of them.
    unsafe = getattr(torch.Tag, "cudagraph_unsafe", None)
    library.define(_SCHEMA, tags=(unsafe,) if unsafe else ())  # type: ignore[no-untyped-call]
    library.impl("print", show, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake("sonde::print", lambda *_: None, lib=library)
    overload: Callable[..., None] = torch.ops.sonde.print.default
    private.keep_in_order("sonde::print")
    return library, overload


_library, emit = _register()
