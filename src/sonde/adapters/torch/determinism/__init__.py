"""Removes randomness from a training and reports what cannot be removed.

This module needs no torch: the command line imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_SEED: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Determinism:
    """The seed, and which randomness to remove besides that of seeds and algorithms."""

    seed: int = 0
    no_shuffle: bool = False
    no_dropout: bool = False

    def options(self) -> tuple[str, ...]:
        """The command-line options for these settings."""
        options = ["--deterministic", "--seed", str(self.seed)]
        options += ["--no-shuffle"] if self.no_shuffle else []
        options += ["--no-dropout"] if self.no_dropout else []
        return tuple(options)
