"""An integration whose library is not installed says in one line what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.warm_python.starting import warm_python

MODULES = {
    "transformers": "transformers",
    "lightning": "lightning",
    "accelerate": "accelerate",
    "ignite": "ignite",
    "trackers.wandb": "wandb",
    "trackers.mlflow": "mlflow",
    "trackers.trackio": "trackio",
    "trackers.tensorboard": "tensorboard",
}
EXTRAS = {"tensorboard": "summary"}


@pytest.mark.parametrize("module", MODULES)
def test_the_library_is_absent(module: str) -> None:
    library = MODULES[module]
    program = (
        f"import sys\nsys.modules[{library!r}] = None\n"
        f"try:\n    import sonde.integrations.{module}\n"
        "except ImportError as error:\n    print(error)"
    )
    ended = subprocess.run(
        [warm_python(), "-c", program], capture_output=True, text=True, timeout=100
    )
    assert ended.stdout == (
        f"{library} is not installed: pip install 'sonde[{EXTRAS.get(library, library)}]' "
        "[extra-missing]\n"
    )


def test_importing_sonde_imports_no_integration() -> None:
    program = "import sonde, sys; print([m for m in sys.modules if 'integrations' in m])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout == "[]\n"
