"""``python -m sonde.adapters.torch.launching STEP_BY ...``: ``torchrun ...``, whose processes run
the program under ``sonde run --step-by STEP_BY``."""

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
    step_by, *given = words
    options = torchrun.parse_args(given)  # type: ignore[no-untyped-call]
    if not options.no_python:  # What is no Python program is started as it is.
        ours = ["run", "--step-by", step_by, *(["-m"] if options.module else [])]
        theirs = [options.training_script, *options.training_script_args]
        options.training_script_args = [*ours, *theirs]
        options.training_script, options.module = "sonde", True
    try:
        torchrun.run(options)  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        # Those that were still at their way out then were ended by torchrun itself.
        codes = {each.exitcode for each in error.failures.values()} - {-signal.SIGTERM}
        if codes == {_ENDED}:
            sys.exit(_ENDED)
        raise


if __name__ == "__main__":
    sys.argv[0] = "torchrun"
    main(sys.argv[1:])
