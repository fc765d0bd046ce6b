"""How a test diagnoses a small training in its own process."""

from __future__ import annotations

import textwrap
from pathlib import Path

from sonde.adapters.torch.diagnosis.session import TrainingDiagnosis
from sonde.core.finding import Finding
from sonde.diagnosis.options import DiagnosisOptions

HEAD = """\
import copy, math
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(3)
x = torch.randn(256, 8)
y = (x[:, 0] > 0).long()
value = x[:, :1] * 2 - x[:, 1:2]
def net(out=2, width=16):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, out))
def batches(n=40, size=32):
    g = torch.Generator().manual_seed(1)
    for _ in range(n):
        yield torch.randint(0, 256, (size,), generator=g)
def fit(model, opt, n=40):
    for i in batches(n):
        opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
"""


def run(code: str, folder: Path) -> tuple[list[Finding], dict[str, object]]:
    """Run ``HEAD`` and ``code`` as a file of ``folder``, and diagnose it. What was confirmed while
    it ran must hold at its end."""
    file = folder / "train.py"
    text = HEAD + textwrap.dedent(code)
    file.write_text(text)
    variables: dict[str, object] = {"__name__": "__main__"}
    diagnosis = TrainingDiagnosis(DiagnosisOptions(), lambda found: None)
    with diagnosis.attached():
        exec(compile(text, str(file), "exec"), variables)
    assert diagnosis.recorder.is_on, "the collection of evidence failed"
    assert diagnosis.running.refuted(diagnosis.findings) == []
    return diagnosis.findings, variables


def findings_of(code: str, folder: Path) -> list[Finding]:
    """What ``run`` finds. The guards of compiled code may keep the variables alive: a network that
    is still compiled would change how the next training is observed."""
    findings, variables = run(code, folder)
    variables.clear()
    return findings
