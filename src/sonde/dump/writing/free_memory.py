"""How much memory the limits of the process leave: of address space, of data, of its cgroup.

Memory that waiting files take is missing to the training, which would then fail where it does not
without Sonde.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from sonde.core.interruption import pass_on

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = "/proc/self/statm"
_CGROUPS = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")
# The fields of statm that the limits are about.
_LIMITED = ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5))
_LITTLE = 64 * 1024 * 1024
# So few waiting bytes take nothing from the training, and asking takes longer than writing them.
_NEGLIGIBLE = 1024 * 1024
_SHARE = 4


def is_scarce(pending_bytes: int) -> bool:
    """Whether so many waiting bytes are too many for what is left: no more may wait then."""
    if pending_bytes < _NEGLIGIBLE:
        return False
    left = left_bytes()
    return left is not None and left < max(_LITTLE, _SHARE * pending_bytes)


def left_bytes() -> int | None:
    """The bytes that the process may still take; None if it has no limit, or nothing tells."""
    limits = [(resource.getrlimit(kind)[0], field) for kind, field in _LIMITED]
    if all(limit == resource.RLIM_INFINITY for limit, _ in limits):
        return None
    try:
        with open(_STATM, "rb", buffering=0) as stream:
            pages = stream.read(256).split()
    except OSError as error:
        pass_on(error)
        return None
    return min(
        limit - int(pages[field]) * _PAGE
        for limit, field in limits
        if limit != resource.RLIM_INFINITY
    )


def most_bytes() -> int:
    """The memory that the process could ever have: that of the machine, or of the least limit."""
    found = [_PAGE * os.sysconf("SC_PHYS_PAGES")]
    found += [resource.getrlimit(kind)[0] for kind, _ in _LIMITED]
    found.append(_cgroup_limit())
    return min(each for each in found if each > 0)


def _cgroup_limit() -> int:
    """The memory limit of the process's cgroup (version 2) and those above it; 0 if none is set."""
    try:
        lines = _CGROUPS.read_text().splitlines()
    except OSError as error:
        pass_on(error)
        return 0
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None:
        return 0
    inner = _MOUNTED / own.strip("/")
    limits = []
    for folder in (inner, *inner.parents):
        try:
            limits.append(int((folder / "memory.max").read_text()))
        except (OSError, ValueError) as error:  # "max": no limit; the root has no such file
            pass_on(error)
            continue
    return min(limits, default=0)
