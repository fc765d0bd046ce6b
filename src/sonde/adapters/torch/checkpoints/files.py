"""Reads and writes torch's checkpoint files (``.pt``, ``.pth``, ``.bin``) as weights.

Read with ``weights_only=True`` after the file's directory and pickle were checked: no code of the
file runs, and nothing larger than the file is allocated. Tensors are mapped where torch can.
"""

from __future__ import annotations

import io
import mmap
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from sonde.adapters.torch.checkpoints.pickle_scan import ForeignObject, scan_pickle
from sonde.compare.weights.checkpoint import Checkpoint, Weight, damaged
from sonde.core.dtypes import BY_NAME
from sonde.core.files.checkpoint_keys import holds_optimizer, progress_keys
from sonde.core.files.mindspore_ckpt import CheckpointError

_KIND = "file of tensors only (a state_dict saved by torch)"
WEIGHT_KEYS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "weights")
"""Where trainers put the weights inside their own files; the first that is there is taken."""
_ZIP = b"PK\x03\x04"
_MAX_DEPTH = 8
_MAX_NAMES = 1_000_000
# The numpy types that hold the bits of dtypes numpy lacks.
_BITS: dict[str, tuple[torch.dtype, str]] = {
    "bfloat16": (torch.int16, "uint16"),
    **{name: (torch.uint8, "uint8") for name in BY_NAME if name.startswith("float8_")},
}


def read_torch(path: Path) -> Checkpoint:
    """The weights in ``path``: a state_dict, or the one inside a trainer's checkpoint.

    A file that would need code to run, or is not a dict of tensors, is a CheckpointError.
    """
    is_zip = _check(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # storage types that torch has renamed
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except MemoryError as error:
        raise damaged(path, _KIND, f"it needs more memory than there is: {error}") from None
    except Exception as error:  # A damaged file can fail in any way; all mean the same here.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise damaged(path, _KIND, reason[:300]) from None
    tensors: dict[str, torch.Tensor] = {}
    texts: dict[str, str] = {}
    _collect(path, _weights_in(loaded), "", 0, tensors, texts)
    if not tensors:
        raise CheckpointError(
            f"{path} has no weights: it is a {type(loaded).__name__} without tensors by name "
            "(a state_dict)",
            slug="checkpoint-format",
        )
    weights = {name: _weight(path, name, tensor) for name, tensor in tensors.items()}
    progress = progress_keys(loaded) if isinstance(loaded, Mapping) else ()
    return Checkpoint(path, "torch", weights, texts, progress, holds_optimizer(loaded))


def write_torch(
    stream: BinaryIO, weights: Iterable[Weight], texts: Mapping[str, str] | None = None
) -> None:
    """Write weights, bit by bit, as a flat state_dict."""
    entries: dict[str, torch.Tensor | str] = {weight.name: _tensor(weight) for weight in weights}
    torch.save({**entries, **(texts or {})}, stream)


def _check(path: Path) -> bool:
    """Refuse false sizes that torch would trust; True if the file is a zip, which can be mapped."""
    size = path.stat().st_size
    try:
        if zipfile.is_zipfile(path):
            _check_zip(path, size)
            return True
        _check_legacy(path, size)
        return False
    except ForeignObject as error:
        raise CheckpointError(
            f"{path} is refused: {error}; save the state_dict alone: "
            "torch.save(model.state_dict(), path)",
            slug="checkpoint-code",
        ) from None
    except (zipfile.BadZipFile, EOFError, zlib.error, OSError) as error:
        raise damaged(path, _KIND, str(error) or "the file ends early") from None
    except (ValueError, IndexError, OverflowError, NotImplementedError, RuntimeError) as error:
        # pickletools has no error of its own, and gives its texts many lines.
        raise damaged(path, _KIND, (str(error).splitlines() or ["no pickle"])[0][:300]) from None


def _check_zip(path: Path, size: int) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(each.filename.rpartition("/")[2] == "constants.pkl" for each in members):
            raise ForeignObject("it is a TorchScript program, not weights")
        # Stored members have two equal sizes; zipfile believes either.
        total = sum(max(member.file_size, member.compress_size) for member in members)
        if any(member.compress_type != zipfile.ZIP_STORED for member in members) or total > size:
            raise zipfile.BadZipFile(f"its members claim {total} bytes, the file has {size}")
        pickles = [each for each in members if each.filename.rpartition("/")[2] == "data.pkl"]
        if len(pickles) != 1:
            raise zipfile.BadZipFile("it has no data.pkl, or several")
        scan_pickle(io.BytesIO(archive.read(pickles[0])), size)


def _check_legacy(path: Path, size: int) -> None:
    """The format before torch 1.6: a magic number, a version, facts, the object, the keys."""
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        if data[: len(_ZIP)] == _ZIP:
            raise zipfile.BadZipFile(f"it is cut off: no zip directory before byte {size}")
        for _ in range(5):
            scan_pickle(data, size)


def _weights_in(loaded: Any) -> Any:
    for _ in range(_MAX_DEPTH):
        if not isinstance(loaded, Mapping):
            break
        inner = (loaded[key] for key in WEIGHT_KEYS if isinstance(loaded.get(key), Mapping))
        found = next(inner, None)
        if found is None:
            break
        loaded = found
    return loaded


def _collect(
    path: Path,
    value: Any,
    prefix: str,
    depth: int,
    tensors: dict[str, torch.Tensor],
    texts: dict[str, str],
) -> None:
    """Tensors and texts of nested dicts by their joined names; numbers and lists are left out."""
    if not isinstance(value, Mapping):
        return
    if depth > _MAX_DEPTH or len(tensors) > _MAX_NAMES:
        raise CheckpointError(
            f"{path}: dicts nested deeper than {_MAX_DEPTH}, or more than {_MAX_NAMES} names",
            slug="checkpoint-format",
        )
    for key, each in value.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(each, torch.Tensor):
            tensors[name] = each
        elif isinstance(each, str):
            texts[name] = each
        else:
            _collect(path, each, name, depth + 1, tensors, texts)


def _weight(path: Path, name: str, tensor: torch.Tensor) -> Weight:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout != torch.strided or tensor.is_quantized or dtype not in BY_NAME:
        raise CheckpointError(
            f"{path}: {name!r} is {dtype} ({tensor.layout}), which is not a plain tensor; "
            "convert it first",
            slug="checkpoint-dtype",
        )

    def load() -> NDArray[Any]:
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        seen, bits = _BITS.get(dtype, (None, ""))
        if dtype == "complex32":
            raise CheckpointError(
                f"{path}: {name!r} is complex32, which numpy lacks", slug="checkpoint-dtype"
            )
        if seen is None:
            return np.asarray(plain.numpy())
        return np.asarray(plain.view(seen).numpy()).view(bits)

    trainable = tensor.requires_grad if isinstance(tensor, torch.nn.Parameter) else None
    return Weight(name, dtype, tuple(tensor.shape), load, trainable)


def _tensor(weight: Weight) -> torch.Tensor:
    dtype = getattr(torch, weight.storage)
    bits = weight.bits().copy()  # torch requires writable memory
    if weight.storage in _BITS:
        as_signed = bits.view(np.int16) if bits.dtype == np.uint16 else bits
        return torch.from_numpy(as_signed).view(dtype)
    if weight.storage == "bool":
        return torch.from_numpy(bits.view(np.bool_))
    return torch.from_numpy(bits)
