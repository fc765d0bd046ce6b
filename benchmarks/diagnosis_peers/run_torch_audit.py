"""Runs a script under torch-audit's ``autopatch``, every step; see `attaching`.

Advice about speed (alignment, memory layout, mixed precision) is left out. Findings of level INFO
count for the cause and the place, and are no alarms, as a hypothesis of Sonde.
"""

from __future__ import annotations

import sys

import torch
from attaching import Alarm, attach_to_models, report, run_script
from torch import nn
from torch_audit import Auditor, Severity, autopatch

KINDS = {
    "TA102": ("exploding-gradient", "lr-too-high", "sum-reduction-lr"),
    "TA103": ("dead-relu", "zero-init"),
    "TA104": ("detached-graph", "frozen-parameters", "zero-grad-before-step"),
    "TA105": ("dead-relu",),
    "TA301": ("unnormalised-input",),
    "TA405": ("zero-init",),
    "TA500": ("unused-parameters", "unregistered-submodules"),
}
"""The causes that the title and the advice of a rule name. TA100, NaN in weights, names none."""
_SPEED = ("TA2",)


def main() -> None:
    output = sys.argv[2]
    auditors: list[Auditor] = []

    def attach(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        auditors.append(autopatch(model, optimizer=optimizer, every_n_steps=1))

    attach_to_models(attach)
    ended = run_script()
    failure = ended if ended is not None and "torch_audit" in ended else None
    alarms: dict[tuple[str, str], Alarm] = {}
    for auditor in auditors:
        for each in auditor.findings:
            if each.rule_id.startswith(_SPEED):
                continue
            module = each.module_path or ""
            names = [module, f"{module}.{(each.entity or '').rpartition(':')[2]}"]
            kinds = KINDS.get(each.rule_id, ())
            alarm = {
                "rule": each.rule_id,
                "text": each.message,
                "kinds": kinds,
                "names": names,
                "is_alarm": each.severity >= Severity.WARN,
            }
            alarms.setdefault((each.rule_id, module), alarm)
    report(list(alarms.values()), output, failure)


if __name__ == "__main__":
    main()
