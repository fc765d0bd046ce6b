"""Checkpoint files: weights by name, and the training state in the same file.

Three formats: MindSpore's ``.ckpt``, ``.safetensors`` and torch's ``.pt`` (read with
``weights_only=True``: loading never runs code from the file). In each format a file is a flat list
of names with tensors or texts, so other tools can read the weights. The training state for resuming
is the text ``sonde.resume`` with its tensors ``sonde.resume/0``, ``sonde.resume/1``, ...
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sonde.core.arguments import wrong_type
from sonde.core.files.atomic_file import replace_file_durably
from sonde.core.files.directories import make_directory
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.train.checkpoint.format import FORMATS, SUFFIXES, Entries, read_entries, write_entries
from sonde.train.checkpoint.loaded_tensor import LoadedTensor
from sonde.train.checkpoint.state_json import flatten, unflatten

_STATE = "sonde.resume"

Savable = nn.Module | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def save_checkpoint(
    save_obj: Savable,
    ckpt_file_name: str | os.PathLike[str],
    *,
    append_dict: Mapping[str, Any] | None = None,
    choice_func: Callable[[str], bool] | None = None,
    crc_check: bool = False,
    format: str | None = None,
    training_state: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``save_obj``: a module, a dict of tensors, or a list of ``{"name", "data"}``.

    The suffix chooses the format; a name without a known suffix gets ``.ckpt`` (or ``format``).
    ``append_dict`` adds numbers, texts and tensors, ``choice_func`` selects names, ``crc_check``
    adds MindSpore's checksum to a ``.ckpt``. An existing file is replaced atomically. Returns the
    path.
    """
    path, kind = _destination(ckpt_file_name, format)
    entries = _entries(save_obj, append_dict, choice_func, training_state)
    return _write(path, kind, entries, crc_check)


def save_checkpoint_async(
    save_obj: Savable,
    ckpt_file_name: str | os.PathLike[str],
    *,
    append_dict: Mapping[str, Any] | None = None,
    choice_func: Callable[[str], bool] | None = None,
    crc_check: bool = False,
    format: str | None = None,
    training_state: Mapping[str, Any] | None = None,
) -> Future[Path]:
    """Like ``save_checkpoint``, but returns as soon as the tensors are copied.

    The file is written in a thread. The result of the future is the path, or the error; wait for it
    before you save under the same name again. The interpreter waits for unfinished writes when it
    exits.
    """
    path, kind = _destination(ckpt_file_name, format)
    entries = _entries(save_obj, append_dict, choice_func, training_state, copy=True)
    executor = ThreadPoolExecutor(1, thread_name_prefix=f"sonde-checkpoint-{path.name}")
    writing = executor.submit(_write, path, kind, entries, crc_check)
    executor.shutdown(wait=False)
    return writing


def load_checkpoint(
    ckpt_file_name: str | os.PathLike[str],
    net: nn.Module | None = None,
    strict_load: bool = False,
    *,
    choice_func: Callable[[str], bool] | None = None,
) -> dict[str, Any]:
    """The weights of a checkpoint by name (tensors on the CPU; appended texts as ``str``).

    The tensors also have MindSpore's ``asnumpy()``. With ``net`` they are also loaded into it
    (``load_param_into_net``). The training state is left out. A file that is damaged, encrypted or
    contains code to run is a ``CheckpointError``.
    """
    parameters: dict[str, Any] = {
        name: value if isinstance(value, str) else value.as_subclass(LoadedTensor)
        for name, value in read_entries(Path(ckpt_file_name)).items()
        if not _is_state(name) and (choice_func is None or choice_func(name))
    }
    if net is not None:
        load_param_into_net(net, parameters, strict_load)
    return parameters


def load_param_into_net(
    net: nn.Module, parameter_dict: Mapping[str, Any], strict_load: bool = False
) -> tuple[list[str], list[str]]:
    """Copy the tensors of ``parameter_dict`` into ``net`` by name.

    Returns the names of the network that the dict lacks, and the names of the dict that the network
    lacks. With ``strict_load`` both, and a different element type, are errors. A different shape,
    or no common name at all, is always an error; the network is then unchanged.
    """
    own = net.state_dict()
    missing = [name for name in own if name not in parameter_dict]
    unused = [name for name in parameter_dict if name not in own]
    common = {name: parameter_dict[name] for name in own if name in parameter_dict}
    problems = [
        f"{name} is {tuple(value.shape)} in the checkpoint and {tuple(own[name].shape)} here"
        for name, value in common.items()
        if tuple(value.shape) != tuple(own[name].shape)
    ]
    if strict_load:
        problems += [
            f"{name} is {value.dtype} in the checkpoint and {own[name].dtype} here"
            for name, value in common.items()
            if value.dtype != own[name].dtype
        ]
        problems += [f"{name} is not in the checkpoint" for name in missing]
        problems += [f"{name} is not in the network" for name in unused]
    if own and not common:
        problems.append("no name of the checkpoint is a name of the network")
    if problems:
        shown = "; ".join(problems[:5]) + ("; ..." if len(problems) > 5 else "")
        raise CheckpointError(f"the checkpoint does not fit: {shown}", slug="checkpoint-mismatch")
    net.load_state_dict(common, strict=False)
    return missing, unused


def load_training_state(ckpt_file_name: str | os.PathLike[str]) -> dict[str, Any]:
    """The training state in a checkpoint; a ``CheckpointError`` if it has only weights."""
    return _training_state(Path(ckpt_file_name), read_entries(Path(ckpt_file_name)))


def load_for_resume(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights and training state of one file, read once."""
    entries = read_entries(path)
    weights = {name: value for name, value in entries.items() if not _is_state(name)}
    return weights, _training_state(path, entries)


def newest_checkpoint(directory: str | os.PathLike[str], prefix: str | None = None) -> Path | None:
    """The newest file in ``directory`` from which training can be resumed; None without one.

    Damaged files, and files with only weights, are skipped. ``prefix`` selects the checkpoints of
    one ``ModelCheckpoint``.
    """
    found = checkpoints_in(Path(directory))
    if prefix is not None:
        found = [path for path in found if path.name.startswith(f"{prefix}-")]
    return next((path for path in found if can_resume(path)), None)


def checkpoints_in(directory: Path) -> list[Path]:
    """The checkpoint files of a directory, newest first; none is read."""
    if not directory.is_dir():
        return []
    found = [
        path
        for path in directory.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    ]
    return sorted(found, key=_age_key, reverse=True)


def can_resume(path: Path) -> bool:
    """Whether ``path`` is undamaged and has a training state; reads the whole file."""
    try:
        load_training_state(path)
    except (CheckpointError, OSError):
        return False
    return True


def _age_key(path: Path) -> tuple[int, list[int]]:
    """The write time, then the numbers in the name for files written at the same time."""
    return path.stat().st_mtime_ns, [int(number) for number in re.findall(r"\d+", path.stem)]


def _is_state(name: str) -> bool:
    return name == _STATE or name.startswith(f"{_STATE}/")


def _training_state(path: Path, entries: Mapping[str, Any]) -> dict[str, Any]:
    text = entries.get(_STATE)
    if not isinstance(text, str):
        raise CheckpointError(
            f"{path} holds weights only, no training state: resume from a file that "
            "ModelCheckpoint wrote with training_state=True",
            slug="checkpoint-without-state",
        )
    tensors: list[torch.Tensor] = []
    while isinstance(tensor := entries.get(f"{_STATE}/{len(tensors)}"), torch.Tensor):
        tensors.append(tensor)
    return unflatten(text, tensors)


def _destination(name: str | os.PathLike[str], format: str | None) -> tuple[Path, str]:
    path = Path(name)
    if format is not None and format not in FORMATS:
        raise CheckpointError(
            f"{format!r} is not a checkpoint format; use {', '.join(FORMATS)}",
            slug="checkpoint-format",
        )
    by_suffix = SUFFIXES.get(path.suffix.lower())
    if format is None:
        format = by_suffix or "ckpt"
    if by_suffix != format:
        path = path.with_name(f"{path.name}.{format}")
    if path.is_dir():
        raise CheckpointError(f"{path} is a directory, not a file name", slug="checkpoint-path")
    return path, format


def _entries(
    save_obj: Savable,
    append_dict: Mapping[str, Any] | None,
    choice_func: Callable[[str], bool] | None,
    training_state: Mapping[str, Any] | None,
    *,
    copy: bool = False,
) -> Entries:
    """Everything a file holds, tensors on the CPU; ``copy`` detaches them from the network."""
    named = {
        name: value
        for name, value in _named(save_obj).items()
        if choice_func is None or choice_func(name)
    }
    for name, value in (append_dict or {}).items():
        named[name] = value if isinstance(value, str | torch.Tensor) else torch.tensor(value)
    if training_state is not None:
        # The text comes last: a file that has it is complete.
        text, tensors = flatten(training_state)
        named |= {f"{_STATE}/{i}": tensor for i, tensor in enumerate(tensors)}
        named[_STATE] = text
    for name, value in named.items():
        if not isinstance(value, str | torch.Tensor):
            raise CheckpointError(
                f"{name} is a {type(value).__name__}; a checkpoint holds tensors and texts",
                slug="checkpoint-state",
            )
    return {
        name: value if isinstance(value, str) else value.detach().to("cpu", copy=copy)
        for name, value in named.items()
    }


def _named(save_obj: Savable) -> dict[str, Any]:
    if isinstance(save_obj, nn.Module):
        return dict(save_obj.state_dict())
    if isinstance(save_obj, Mapping):
        return dict(save_obj)
    if isinstance(save_obj, Sequence) and all(
        isinstance(item, Mapping) and {"name", "data"} <= item.keys() for item in save_obj
    ):
        return {str(item["name"]): item["data"] for item in save_obj}
    rule = "must be a module, a dict of tensors or a list of {'name', 'data'}"
    raise wrong_type("save_obj", "save_checkpoint", rule, save_obj)


def _write(path: Path, kind: str, entries: Entries, crc: bool) -> Path:
    make_directory(path.parent)
    replace_file_durably(path, lambda stream: write_entries(stream, kind, entries, crc=crc))
    return path
