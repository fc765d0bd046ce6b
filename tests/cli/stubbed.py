"""``sonde`` with a capture that only records when it begins and ends, so that tests are quick.

The lines go to the file named by ``SONDE_TEST_LOG``.
"""

import contextlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def note(text: str) -> None:
    with open(os.environ["SONDE_TEST_LOG"], "a") as log:
        log.write(text + "\n")


@contextlib.contextmanager
def attach(config: Any, *, starts_at_once: bool, step_by: str, **_: Any) -> Iterator[None]:
    what = "nothing" if config is None else f"{config.saved_data} to {config.path}"
    note(f"attach {what}, {step_by}")
    try:
        yield
    except BaseException as error:
        note(f"leave {type(error).__name__}")
        raise
    else:
        note("leave")
    finally:
        if os.environ.get("SONDE_TEST_FAIL"):
            raise RuntimeError("the sink broke")


if __name__ == "__main__":
    if importlib.util.find_spec("sonde") is None:  # python -I does not look at PYTHONPATH
        sys.path.append(str(Path(__file__).parents[2] / "src"))
    stub = types.ModuleType("sonde.adapters.torch.step_dump.dumping")
    vars(stub)["start_capture"] = attach
    sys.modules[stub.__name__] = stub
    from sonde.cli.main import main

    sys.exit(main())
