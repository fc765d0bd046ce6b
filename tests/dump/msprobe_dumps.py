"""Dumps by msprobe 26.2 of a small network: two blocks of Linear, LayerNorm and ReLU, and a head.

Made with torch 2.13 by msprobe's PrecisionDebugger, levels L0, L1 and mix, tasks statistics and
tensor. ``wrong`` multiplies the activations before the head by 1.01, ``nan`` takes their logarithm.
Nothing but the paths of the machine was changed.
"""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).parent / "data" / "msprobe.tar.xz"


def unpack(place: Path) -> Path:
    with lzma.open(ARCHIVE) as data, tarfile.open(fileobj=data) as archive:
        archive.extractall(place, filter="data")
    return place


def unpacked(factory: pytest.TempPathFactory) -> Path:
    return unpack(factory.mktemp("msprobe"))
