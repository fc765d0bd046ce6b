"""What must be the same on all ranks before a training begins: versions, settings, the program."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import torch
import xxhash

_VARIABLES: Final = (
    *("OMP_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "NCCL_ALGO", "TORCH_ALLOW_TF32_OVERRIDE"),
    *("PYTHONHASHSEED", "TORCH_NCCL_NAN_CHECK"),
)


_MOST_ARGUMENTS: Final = 200
_LARGEST_FILE: Final = 1 << 20
_OWN_NUMBERS: Final = ("LOCAL_RANK", "GROUP_RANK", "NODE_RANK")


def arguments() -> tuple[str, ...]:
    """What the program was started with."""
    return tuple(sys.argv[1 : 1 + _MOST_ARGUMENTS])


def own_numbers(rank: int) -> tuple[int, ...]:
    """The numbers that belong to this rank, and may be in its arguments: of the rank, of the
    process on its machine, of the machine."""
    given = [os.environ.get(name, "") for name in _OWN_NUMBERS]
    return (rank, *(int(each) for each in given if each.isdecimal()))


def environment() -> dict[str, str]:
    """Facts by name."""
    found = {
        "the version of torch": str(torch.__version__),
        "the version of Python": platform.python_version(),
        "the default dtype": str(torch.get_default_dtype()),
        "deterministic algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        **_program(os.path.abspath(sys.argv[0])),
        **dict(_files(arguments())),
    }
    return {**found, **{name: os.environ[name] for name in _VARIABLES if name in os.environ}}


@lru_cache(maxsize=1)
def _program(path: str) -> dict[str, str]:
    """The hash of the file that was started, and the commit that is checked out around it."""
    found = {}
    try:
        digest = xxhash.xxh3_64_hexdigest(Path(path).read_bytes())
        found["the program's file"] = f"{os.path.basename(path)} (hash {digest[:8]})"
        if commit := _commit(Path(path).parent):
            found["the program's commit"] = commit
    except OSError:  # Started in another way, or unreadable.
        pass
    return found


@lru_cache(maxsize=1)
def _files(given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The hashes of the files that arguments name, such as a configuration."""
    return tuple(_hashed(given))


def _hashed(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for each in given:
        path = Path(each.partition("=")[2] if each.startswith("-") else each)
        try:
            if path.is_file() and path.stat().st_size <= _LARGEST_FILE:
                digest = xxhash.xxh3_64_hexdigest(path.read_bytes())[:8]
                yield f"the file {path.name}", f"one with the hash {digest}"
        except (OSError, ValueError):  # No path, or unreadable.
            continue


def _commit(directory: Path) -> str:
    """Of the git repository that ``directory`` is in; empty outside of one."""
    git = next((each / ".git" for each in (directory, *directory.parents) if _has_git(each)), None)
    if git is None:
        return ""
    head = (git / "HEAD").read_text().strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head
    loose = git / name
    if loose.is_file():
        return loose.read_text().strip()
    packed = git / "packed-refs"
    lines = packed.read_text().splitlines() if packed.is_file() else []
    return next((each.split()[0] for each in lines if each.endswith(f" {name}")), "")


def _has_git(directory: Path) -> bool:
    return (directory / ".git" / "HEAD").is_file()
