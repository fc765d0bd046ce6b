"""Says what files and directories without a dump of Sonde's format are, and what reads them."""

from __future__ import annotations

import codecs
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from sonde.dump.old_formats.ascend_raw import is_raw_file, parse_raw_name
from sonde.dump.old_formats.bin_files import parse_bin_name

_MAX_DEPTH = 6
_MAX_ENTRIES = 20_000
_READ_BYTES = 4096
_MAGIC = {
    b"\x93NUMPY": "an array of numpy (.npy)",
    b"\x89HDF\r\n": "an HDF5 file",
    b"\x1f\x8b": "a file compressed with gzip",
    b"\x80\x02\x8a": "a file of torch.save (.pt)",  # its format before the zip archive
    b"\x80": "a pickle file",
}
"""How files begin."""

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


def kind_of_path(path: Path) -> str:
    """What a file or directory is, by its contents, with an article."""
    if path.is_dir():
        with os.scandir(path) as entries:
            return "an empty directory" if next(entries, None) is None else "a directory"
    if not path.is_file():  # A pipe would be waited for.
        return "neither a file nor a directory"
    try:
        with path.open("rb") as file:
            start = file.read(_READ_BYTES)
    except OSError as error:
        return f"a file that cannot be read ({error.strerror})"
    if not start:
        return "an empty file"
    if start.startswith(b"PK\x03\x04"):
        return _kind_of_archive(path)
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return kind
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "a file of an unknown format"
    is_text = all(char.isprintable() or char.isspace() for char in text)
    return "a text file" if is_text else "a file of an unknown format"


def _kind_of_archive(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return "a damaged archive (zip)"
    if any(name.endswith("/data.pkl") for name in names):
        return "a file of torch.save (.pt)"
    if names and all(name.endswith(".npy") for name in names):
        return "an archive of numpy arrays (.npz)"
    return "an archive (zip)"


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
