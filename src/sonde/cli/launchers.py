"""Command lines that start a script on several ranks: ``torchrun --nproc-per-node 2 train.py``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sonde.core.errors import UsageError

_TORCHRUN: Final = "torch.distributed.run"
_ACCELERATE: Final = "accelerate.commands.launch"
_MODULES: Final = {
    ("torchrun",): _TORCHRUN,
    ("-m", "torch.distributed.run"): _TORCHRUN,
    ("-m", "torch.distributed.launch"): _TORCHRUN,
    ("accelerate", "launch"): _ACCELERATE,
}
_COUNTS: Final = ("--nproc-per-node", "--nproc_per_node", "--num_processes", "--num-processes")


@dataclass(frozen=True, slots=True)
class LaunchedScript:
    """A script with its arguments, and what starts it: ``launcher`` are the module and its options,
    empty for a script that is run by itself. ``ranks``: how many processes, if that is known."""

    launcher: tuple[str, ...]
    words: tuple[str, ...]
    ranks: int | None = None

    def command(self, ours: Sequence[str]) -> list[str]:
        """The command line that runs the script with ``python -m sonde run`` and options."""
        start = [sys.executable, "-m", *self.launcher] if self.launcher else [sys.executable]
        return [*start, "-m", *ours, *self.words]


def split_launcher(words: Sequence[str], given: str) -> LaunchedScript:
    """Divide a command line; UsageError if there is no script behind a launcher."""
    for name, module in _MODULES.items():
        found = (Path(words[0]).name, *words[1:]) if words else ()
        if tuple(found[: len(name)]) != name:
            continue
        rest = words[len(name) :]
        place = _script_place(rest)
        if place is None:
            raise UsageError(
                f"--run {given!r}: no script behind {' '.join(name)}; write: "
                f"{' '.join(name)} [OPTIONS] SCRIPT.py [ARGS]",
                slug="usage",
            )
        ranks = _ranks(rest[:place])
        return LaunchedScript((module, *rest[:place]), tuple(rest[place:]), ranks)
    return LaunchedScript((), tuple(words))


def _script_place(words: Sequence[str]) -> int | None:
    """The position of the script, or of ``-m MODULE``, after the options of the launcher."""
    for number, word in enumerate(words):
        if word in ("-m", "--module") and number + 1 < len(words):
            return number
        if word.endswith(".py"):
            return number
    return None


def _ranks(options: Sequence[str]) -> int | None:
    for number, word in enumerate(options):
        name, _, value = word.partition("=")
        if name in _COUNTS:
            text = value or "".join(options[number + 1 : number + 2])
            return int(text) if text.isdigit() else None
    return None
