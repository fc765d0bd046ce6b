"""Says what a directory without a dump of Sonde's format looks like, and what reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sonde.dump.old_formats.ascend_raw import is_raw_file, parse_raw_name
from sonde.dump.old_formats.bin_files import parse_bin_name

_MAX_DEPTH = 6
_MAX_ENTRIES = 20_000

# The first pattern that fits the name of a file decides: what it is, and what to do with it.
_KNOWN: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), what, advice)
    for pattern, what, advice in (
        (r"worker_\d+_collections\.json", "tensors of SageMaker Debugger (smdebug)", ""),
        (r".*_worker_\d+\.tfevents", "tensors of SageMaker Debugger (smdebug)", ""),
        (r"tfdbg_events\..*|_tfdbg_.*", "a dump of TensorFlow's debugger (tfdbg)", ""),
        (
            r".*tfevents.*",
            "event files of TensorBoard",
            "sonde loss compares the scalars in them; view them with tensorboard --logdir",
        ),
        (
            r"(?:api_stack|dump|overflow)_.*\.pkl",
            "a dump of ptdbg_ascend, the predecessor of msprobe",
            "dump again with msprobe (dump.json), which Sonde reads",
        ),
        (
            r".*\.trace\.json(?:\.gz)?",
            "a trace of torch.profiler",
            "sonde profile makes and explains its own",
        ),
        (r"dump\.json", "a dump of msprobe in a version that Sonde does not know", ""),
        (r".*\.onnx", "a model in ONNX", ""),
        (
            r".*\.(?:safetensors|ckpt|pth?|npz)",
            "checkpoints or single tensors",
            "sonde params and sonde ckpt read checkpoints",
        ),
        (r".*\.(?:h5|hdf5|keras)", "HDF5 files, such as checkpoints of Keras", ""),
        (r".*\.npy", "single .npy files without the names that a dump gives them", ""),
    )
)


def looks_like(path: Path) -> str | None:
    """What the files below ``path`` are and what to do, as the end of a sentence; None if no file
    is of a known kind."""
    names: list[str] = []
    for file in _files(path):
        if (old := old_format(file)) is not None:
            return f"this looks like {old}; convert it: sonde convert {path} OUT"
        names.append(file.name)
    for pattern, what, advice in _KNOWN:
        if any(pattern.fullmatch(name) for name in names):
            return f"this looks like {what}, which Sonde does not read as a dump" + (
                f"; {advice}" if advice else ""
            )
    return None


def old_format(file: Path) -> str | None:
    """The old dump format that a file is of, for `sonde convert`; None for all others."""
    if parse_bin_name(file.name) is not None:
        return "a synchronous dump of MindSpore 1.0 to 1.2 (.bin files)"
    if parse_raw_name(file.name) is not None and is_raw_file(file):
        return "a raw dump of an Ascend device (protobuf)"
    return None


def _files(path: Path) -> Iterator[Path]:
    """Files below a directory, those near the top first, to a limited depth and number."""
    level, seen = [path], 0
    for _ in range(_MAX_DEPTH):
        below: list[Path] = []
        for directory in level:
            try:
                with os.scandir(directory) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in listed:
                seen += 1
                if seen > _MAX_ENTRIES:
                    return
                if entry.is_dir(follow_symlinks=False):
                    below.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
        level = below
