"""Observes the ranks that a program starts by running itself again.

Trainers of Lightning and Fabric run the script once more for each further device of a machine, as
``python train.py ARGS`` with another ``LOCAL_RANK``. In the block of `observed_ranks` such a
process is started with the command line of this one, and so is observed in the same way:
``python -m sonde run --guard train.py ARGS``. Other processes are started as they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from sonde.core.observation_variables import CAPTURING, OWN_RANK, launched_rank
from sonde.core.patching import wrap

_LOCAL_RANK: Final = "LOCAL_RANK"


@contextmanager
def observed_ranks(command: Sequence[str] | None) -> Iterator[None]:
    """Observe such ranks in this block. ``command`` runs the program under Sonde; None: variables
    of the environment do."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def start(this: Any, args: Any, *rest: Any, **named: Any) -> Any:
            environ: Any = named.get("env")
            more = _words_after_program(args)
            if more is not None and _is_other_rank(environ):
                if command is not None:
                    args = [*command, *more]
                named["env"] = _for_rank(environ)
            return original(this, args, *rest, **named)

        return start

    with ExitStack() as undo:
        wrap(subprocess.Popen, "__init__", make, undo)
        yield


def _words_after_program(args: Any) -> list[str] | None:
    """What follows in a command line that runs this program again with the same arguments; None for
    any other command line. Hydra's own arguments may follow."""
    if not isinstance(args, (list, tuple)) or not all(isinstance(each, str) for each in args):
        return None
    if not args or args[0] != sys.executable:
        return None
    words = list(args[1:])
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    start = [os.path.abspath(sys.argv[0])] if spec is None else ["-m", spec.name]
    program = [*start, *sys.argv[1:]]
    return words[len(program) :] if words[: len(program)] == program else None


def _is_other_rank(environ: Any) -> bool:
    """Whether the variables are those of a further rank on this machine."""
    rank = environ.get(_LOCAL_RANK, "") if isinstance(environ, Mapping) else ""
    return rank.isdecimal() and int(rank) > 0 and os.environ.get(_LOCAL_RANK) == "0"


def _for_rank(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which Sonde knows the rank; this process is the first one."""
    first = launched_rank(os.environ) or 0
    os.environ[OWN_RANK] = str(first)
    found = {name: text for name, text in environ.items() if name != CAPTURING}
    return {**found, OWN_RANK: str(first + int(environ[_LOCAL_RANK]))}
