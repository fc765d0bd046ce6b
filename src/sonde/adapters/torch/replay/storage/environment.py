"""The program, the versions and the flags of a captured step, and how they are restored.

The number of threads is one of the flags: torch's kernels sum in another order with another number.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash

import sonde
from sonde.core.interruption import pass_on
from sonde.replay.manifest import StoredProgram

_MAX_ARGUMENTS = 1000


def versions() -> dict[str, str]:
    """What the step was computed with."""
    return {
        "sonde": sonde.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cuda": torch.version.cuda or "",
    }


def program() -> StoredProgram:
    """The program that runs in this process."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    return StoredProgram(
        file=None if file is None else os.path.abspath(file),
        module=None if spec is None else spec.name.removesuffix(".__main__"),
        arguments=[_as_text(word) for word in sys.argv[1:_MAX_ARGUMENTS]],
        directory=os.getcwd(),
        path=[_as_text(entry) for entry in sys.path if isinstance(entry, str)],
        digest=file_digest(file),
    )


def file_digest(file: str | None) -> str:
    """A hash of a file; empty if it cannot be read."""
    try:
        return "" if file is None else xxhash.xxh3_64_hexdigest(Path(file).read_bytes())
    except OSError as error:
        pass_on(error)
        return ""


def has_device(name: str) -> bool:
    """Whether this machine has the device ``name``."""
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        pass_on(error)
        return False
    return True


def flags() -> dict[str, Any]:
    """The settings of torch that decide how ops compute."""
    backends: Any = torch.backends
    return {
        "threads": torch.get_num_threads(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "mkldnn": bool(backends.mkldnn.enabled),
        "cudnn": bool(backends.cudnn.enabled),
        "cudnn_benchmark": bool(backends.cudnn.benchmark),
        "cudnn_deterministic": bool(backends.cudnn.deterministic),
        "flash_attention": bool(backends.cuda.flash_sdp_enabled()),
        "efficient_attention": bool(backends.cuda.mem_efficient_sdp_enabled()),
        "math_attention": bool(backends.cuda.math_sdp_enabled()),
    }


@contextmanager
def with_flags(stored: Mapping[str, Any]) -> Iterator[None]:
    """Set torch as it was when the step was captured; undone at the end.

    Values of a wrong type are ignored: a manifest may be damaged.
    """
    before = flags()
    _set(stored, before)
    try:
        yield
    finally:
        _set(before, before)


def _set(stored: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    values = {
        name: value if type(value := stored.get(name, default)) is type(default) else default
        for name, default in known.items()
    }
    backends: Any = torch.backends
    with suppress(RuntimeError, ValueError, TypeError, AttributeError):
        if values["threads"] != torch.get_num_threads() and 0 < values["threads"] <= 4096:
            torch.set_num_threads(values["threads"])
        torch.set_default_dtype(getattr(torch, values["default_dtype"]))
        torch.use_deterministic_algorithms(
            values["deterministic_algorithms"], warn_only=values["deterministic_warn_only"]
        )
        if values["float32_matmul_precision"] != torch.get_float32_matmul_precision():
            torch.set_float32_matmul_precision(values["float32_matmul_precision"])
        for name, value in (
            ("mkldnn", values["mkldnn"]),
            ("cudnn", values["cudnn"]),
        ):
            if getattr(backends, name).enabled != value:
                getattr(backends, name).enabled = value
        backends.cudnn.benchmark = values["cudnn_benchmark"]
        backends.cudnn.deterministic = values["cudnn_deterministic"]
        backends.cuda.enable_flash_sdp(values["flash_attention"])
        backends.cuda.enable_mem_efficient_sdp(values["efficient_attention"])
        backends.cuda.enable_math_sdp(values["math_attention"])


def _as_text(word: str) -> str:
    return word.encode("utf-8", "replace").decode()
