"""A folder in which the commands and programs of the guides can run, and those that cannot."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from pathlib import Path

import torch
from safetensors.torch import save_file
from tests.docs.console import ROOT

GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = re.compile(r"(?ms)^```(console|sh|bash)\n(.*?)^```")
PYTHON = re.compile(r"(?ms)^```python\n(.*?)^```")
COMMENT = re.compile(r"\s+#\s.*$|\s{6,}.*$")

TRAIN = """
import argparse, torch
from torch import nn

options = argparse.ArgumentParser()
for flag in ("--fp32", "--bf16"):
    options.add_argument(flag, action="store_true")
options.add_argument("--epochs", type=int, default=1)
options.add_argument("--lr", type=float, default=0.01)
given = options.parse_args()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
if given.bf16:
    net.bfloat16()
optimizer = torch.optim.SGD(net.parameters(), lr=given.lr)
for step in range(10 * given.epochs):
    x = torch.randn(16, 8, dtype=net[0].weight.dtype)
    optimizer.zero_grad()
    loss = -torch.softmax(net(x), dim=1)[:, 0].log().mean()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}")
"""

NOT_RUN = {
    "pip install": "installs packages",
    "claude ": "another program",
    "ssh ": "another program",
    "openssl ": "another program",
    "tensorboard ": "another program",
    "pytest ": "tests/integrations/pytest runs it",
    "sonde debug": "serves a page until Ctrl-C; tests/e2e and tests/cli/test_debug.py run it",
    "sonde serve": "serves a page until Ctrl-C",
    "sonde view": "serves a page until Ctrl-C",
    "sonde ctl": "controls a training; tests/cli/ctl runs it",
    "sonde enable": "changes the Python environment; tests/cli/test_enable.py runs it",
    "sonde disable": "changes the Python environment",
    "sonde tune": "tests/tune/test_docs_and_examples.py runs it",
    "sonde profile": "tests/profile/test_planted.py runs it",
    "sonde skill": "writes into the home directory's settings; tests/cli/test_skill.py runs it",
    "torchrun": "the tutorial on ranks runs it",
    "sonde replay": "needs the step of a failed run; the tutorial on NaN runs it",
    "sonde verify": "needs the step of a failed run; the tutorial on NaN runs it",
}
NEEDS = {
    ".venv-mindspore": "make mindspore",
    "--run 'torchrun": "tests/compare/runs/merging",
    "--ray": "tests/workers",
    "torchrun --nproc": "the tutorial on ranks",
    "--log-to": "tests/integrations",
    "mindspore_dump torch_dump": "tests/compare has dumps of both",
    "sonde view": "serves a page until Ctrl-C",
    "| jq": "another program",
    "dump_a dump_b": "tests/cli/test_compare.py",
    "nowhere": "an error on purpose; tests/cli/documents",
    "./summary_dir": "tests/summary",
    "summaries": "tests/tune",
    "sonde ranks": "the tutorial on ranks",
}


def commands(page: Path) -> list[str]:
    """The commands of a page, without comments."""
    found = []
    for kind, block in SHELL.findall(page.read_text()):
        lines = block.replace("\\\n", " ").splitlines()
        if kind == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found += [COMMENT.sub("", line).strip() for line in lines]
    return [each for each in found if each and "=" not in each.split()[0]]


def reason_not_to_run(command: str) -> str | None:
    """Why a command is not run here; None if it is."""
    for words, reason in NOT_RUN.items():
        if command.startswith(words):
            return reason
    return next((reason for words, reason in NEEDS.items() if words in command), None)


def prepared(folder: Path) -> Path:
    """``folder`` with the files that the guides name."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "train.py").write_text(textwrap.dedent(TRAIN))
    settings = {
        "dump_mode": 0,
        "path": str(folder / "configured"),
        "net_name": "Net",
        "iteration": "0",
        "saved_data": "statistic",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    }
    config = {"common_dump_settings": settings}
    (folder / "data_dump.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    weights = torch.nn.Linear(4, 4).state_dict()
    changed = {name: value + 0.1 for name, value in weights.items()}
    for name in ("model.pt", "torch.pt", "mindspore.ckpt", "step0.ckpt"):
        torch.save(weights, folder / name)
    torch.save(changed, folder / "step1.ckpt")
    save_file(weights, folder / "model.safetensors")
    for name in ("torch.log", "mindspore.log"):
        (folder / name).write_text("".join(f"step {n} loss {1 / (n + 1)}\n" for n in range(20)))
    return folder
