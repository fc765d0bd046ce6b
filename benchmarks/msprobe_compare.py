"""One step dumped by msprobe, for ``compare.py``: run with a Python that has mindstudio-probe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from msprobe.pytorch import PrecisionDebugger


def dump(settings: dict[str, Any]) -> None:
    place = Path(settings["place"])
    place.mkdir(parents=True)
    config = place / "config.json"
    content = {
        "task": "tensor",
        "dump_path": str(place / "dump"),
        "rank": [],
        "step": [],
        "level": "L1",
        "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
    }
    config.write_text(json.dumps(content))
    debugger = PrecisionDebugger(config_path=str(config))
    head, _, tail = settings["train"].partition("loss_function(")
    names: dict[str, Any] = {}
    exec(head, names)
    debugger.start(model=names["module"])
    exec("loss_function(" + tail, names)
    debugger.stop()
    debugger.step()


dump(json.loads(sys.argv[1]))
