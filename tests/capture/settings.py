"""Dump configurations to change in tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sonde.capture.config import CaptureConfig

Load = Callable[..., CaptureConfig]


def document(tmp_path: Path, **common: Any) -> dict[str, Any]:
    """The smallest file that is accepted, with ``common`` changed in it (... removes a key)."""
    values: dict[str, Any] = {
        "dump_mode": 0,
        "path": str(tmp_path / "out"),
        "net_name": "Net",
        "iteration": "all",
        "input_output": 0,
        "kernels": [],
        "support_device": [0, 1, 2, 3, 4, 5, 6, 7],
        **common,
    }
    return {"common_dump_settings": {k: v for k, v in values.items() if v is not ...}}
