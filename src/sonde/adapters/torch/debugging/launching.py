"""Runs ``torchrun ...`` with each process under ``sonde run OPTIONS``.

Started as ``python -m sonde.adapters.torch.debugging.launching OPTIONS ...``, where OPTIONS is one
word, such as ``"--step-by manual"``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from torch.distributed import run as torchrun
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record

_ENDED = 130
"""The exit code of a rank that was ended from the debugger."""


@record
def main(words: Sequence[str]) -> None:
    ours, *given = words
    options = torchrun.parse_args(given)  # type: ignore[no-untyped-call]
    if not options.no_python:  # A program that is not Python is started unchanged.
        before = ["run", *ours.split(), *(["-m"] if options.module else [])]
        theirs = [options.training_script, *options.training_script_args]
        options.training_script_args = [*before, *theirs]
        options.training_script, options.module = "sonde", True
    try:
        torchrun.run(options)  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        # Ranks that were still ending then got SIGTERM from torchrun.
        codes = {each.exitcode for each in error.failures.values()} - {-signal.SIGTERM}
        if codes == {_ENDED}:
            sys.exit(_ENDED)
        raise


if __name__ == "__main__":
    sys.argv[0] = "torchrun"
    main(sys.argv[1:])
