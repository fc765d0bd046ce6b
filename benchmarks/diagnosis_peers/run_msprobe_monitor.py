"""Runs a script under msprobe's ``TrainerMon`` with its two alarm rules; see `attaching`.

Gradients, weights and optimizer state of the first 100 steps are observed, not activations, which
take minutes for each script. The rules are those of its documentation: more than 1.5 times the mean
so far (AnomalyTurbulence, 0.5), NaN or beyond 1e10. They say that a number is unusual, and name no
cause.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from attaching import Alarm, attach_to_models, report, run_script
from torch import nn

RULES = [
    {"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}},
    {"rule_name": "AnomalyNan", "args": {"threshold": 1e10}},
]
CONFIG = {
    "targets": {},
    "wg_distribution": True,
    "mv_distribution": True,
    "param_distribution": True,
    "collect_times": 100,
    "format": "csv",
    "ops": ["norm", "max", "nans"],
    "alert": {"rules": RULES, "dump": True},
}


def main() -> None:
    output = sys.argv[2]
    place = Path(tempfile.mkdtemp(prefix="msprobe-"))
    os.environ["MONITOR_OUTPUT_DIR"] = str(place)
    config = place / "config.json"
    config.write_text(json.dumps(CONFIG))
    from msprobe.core.monitor.anomaly_processor import AnomalyDataFactory, AnomalyDataWriter
    from msprobe.pytorch import TrainerMon

    found: list[tuple[str, str]] = []
    create = AnomalyDataFactory.create

    def created(self: object, tag: tuple[str, str], message: str, step: int) -> object:
        found.append((tag[0], message))
        return create(self, tag, message, step)

    AnomalyDataFactory.create = created
    # It writes all alarms so far again in every step, and looks for the module of each frame on the
    # stack of a log call, which takes minutes.
    AnomalyDataWriter.write_detected_json = lambda self, anomalies: None
    inspect.getmodule = lambda *_: None  # type: ignore[assignment]
    monitors = []
    failures: list[str] = []

    def attach(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if monitors:
            return  # It patches classes: one monitor for each process.
        try:
            monitor = TrainerMon(str(config), params_have_main_grad=False)
            monitor.set_monitor(model, optimizer, grad_acc_steps=1)
            monitors.append(monitor)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    attach_to_models(attach)
    ended = run_script()
    if ended is not None and "msprobe" in ended:
        failures.append(ended.strip().splitlines()[-1])
    alarms: dict[tuple[str, str], Alarm] = {}
    for tag, message in found:
        rule = next(each["rule_name"] for each in RULES if each["rule_name"] in message)
        name = tag.split("/")[0].rpartition(":")[2]
        names = [name, name.rpartition(".")[0]]
        alarm = {"rule": rule, "text": message, "kinds": (), "names": names}
        alarms.setdefault((rule, name), alarm)
    report(list(alarms.values()), output, failures[0] if failures and not alarms else None)


if __name__ == "__main__":
    main()
