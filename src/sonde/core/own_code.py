"""Decides which source files are the user's own code, and which belong to a library.

A file is a library's if it is in ``site-packages``, ``dist-packages`` or the standard library,
unless the user named its package as own: by the variable ``SONDE_OWN`` (which the option ``--own``
sets, so that child processes have it too) or by the key ``own_packages`` of a dump configuration.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from sonde.core.errors import UsageError

VARIABLE = "SONDE_OWN"

_INSTALLED = re.compile(r"(?:^|[/\\])(?:site|dist)-packages[/\\]")
_STDLIB = re.compile(r"(?:^|[/\\])lib(?:64)?[/\\]python3(?:\.\d+)?t?[/\\]")
_PACKAGE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_configured: list[tuple[str, ...]] = []


def parse_packages(text: str) -> tuple[str, ...]:
    """The names of packages in a text such as ``"transformers,peft.tuners"``."""
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    for name in names:
        refuse_other_than_package(name)
    return names


def refuse_other_than_package(name: str) -> None:
    """Raise a UsageError unless ``name`` can be the name of a package."""
    if not _PACKAGE.fullmatch(name):
        raise UsageError(
            f"{name!r} is not the name of a package such as 'transformers' or 'peft.tuners'",
            slug="own-packages",
        )


@contextmanager
def configured(packages: Sequence[str]) -> Iterator[None]:
    """Count ``packages`` as own, too, until the block is left."""
    entry = tuple(packages)
    _configured.append(entry)
    try:
        yield
    finally:
        _configured.remove(entry)


def is_own(file: str) -> bool:
    """Whether ``file`` is the user's own code, not a library's."""
    packages = os.environ.get(VARIABLE, "")
    if _configured:
        packages = ",".join((packages, *(name for entry in _configured for name in entry)))
    return _is_own(file, packages)


@lru_cache(maxsize=4096)
def _is_own(file: str, packages: str) -> bool:
    installed = _within_packages(file)
    if installed is None:
        return _STDLIB.search(file) is None
    # Names that are not valid were refused where they were read; here they match nothing.
    names = [name.strip().replace(".", "/") for name in packages.split(",") if name.strip()]
    return any(
        installed in (name, f"{name}.py") or installed.startswith(f"{name}/") for name in names
    )


def short_path(file: str) -> str:
    """The path of a library's file inside its installation: ``transformers/pytorch_utils.py``."""
    return _within_packages(file) or file


def _within_packages(file: str) -> str | None:
    """The path below the innermost ``site-packages``; None if the file is not in one."""
    *_, last = None, *_INSTALLED.finditer(file)
    return None if last is None else file[last.end() :].replace("\\", "/")
