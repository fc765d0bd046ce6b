"""``sonde verify``: 0 fixed, 1 still there, 2 could not be executed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.replayed_steps import SCRIPT, guarded, sonde

FIXED = SCRIPT.replace("100.0 - x.sum(1, keepdim=True)", "x.sum(1, keepdim=True).abs() + 1")

LOSS_SCRIPT = SCRIPT.replace("torch.sqrt(100.0 - x.sum(1, keepdim=True))", "1.0").replace(
    "cross_entropy(model(x), y)",
    "(model(x).softmax(-1)[range(16), y] - (x[:, 0] > 9) * 1.0).log().neg().mean()",
)

MODULE_LOSS_SCRIPT = (
    SCRIPT.replace("torch.sqrt(100.0 - x.sum(1, keepdim=True))", "x.abs().max() ** 2")
    .replace("cross_entropy(model(x), y)", "criterion(model(x), y)")
    .replace("    model = Net()\n", "    model = Net()\n    criterion = nn.CrossEntropyLoss()\n")
)

RECONSTRUCTION_SCRIPT = SCRIPT.replace("cross_entropy(model(x), y)", "LOSS").replace(
    "LOSS", "(model(x).mean(1, keepdim=True) - x).square().mean()"
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return guarded(tmp_path_factory.mktemp("guarded"))


def test_unchanged_code_is_still_there(kept: Path) -> None:
    done = sonde(kept.parents[1], "verify", kept)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("still there: loss nan")


def test_a_fixed_class_is_fixed(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "fixed.py").write_text(FIXED)
    done = sonde(tmp_path, "verify", kept, "--script", "fixed.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fixed: loss ")
    assert "(step 3 was kept because the loss is nan)" in done.stdout


def test_a_fixed_script_gives_the_same_loss_as_the_fixed_class(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "fixed.py").write_text(FIXED)
    of_class = sonde(tmp_path, "verify", kept, "--script", "fixed.py", "--json")
    # Another seed: the weights, the batch and the random states are those of the captured step.
    of_script = sonde(tmp_path, "verify", kept, "--json", "--", "fixed.py", "7")
    assert of_script.returncode == 0, of_script.stderr
    assert json.loads(of_script.stdout) == json.loads(of_class.stdout)
    assert "trained" not in of_script.stderr


def test_an_unfixed_script_is_still_there(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = sonde(tmp_path, "verify", kept, "--", "train.py", "7")
    assert done.returncode == 1, done.stderr


def test_a_loss_in_the_script_is_verified_with_the_labels_of_the_step(tmp_path: Path) -> None:
    step = guarded(tmp_path, LOSS_SCRIPT)
    still = sonde(tmp_path, "verify", step, "--", "train.py", "7")
    assert still.returncode == 1, still.stdout + still.stderr
    (tmp_path / "fixed.py").write_text(
        LOSS_SCRIPT.replace(".log().neg()", ".clamp(min=0.1).log().neg()")
    )
    done = sonde(tmp_path, "verify", step, "--", "fixed.py", "7")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_batch_that_network_and_loss_share_is_exchanged_once(tmp_path: Path) -> None:
    step = guarded(tmp_path, RECONSTRUCTION_SCRIPT)
    (tmp_path / "fixed.py").write_text(RECONSTRUCTION_SCRIPT.replace("100.0 -", "1e9 -"))
    done = sonde(tmp_path, "verify", step, "--", "fixed.py", "7")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_expression_is_judged_with_the_history_where_the_loss_is_a_module(
    tmp_path: Path,
) -> None:
    step = guarded(tmp_path, MODULE_LOSS_SCRIPT, words=["--trigger", "loss > 9 * median(loss, 3)"])
    assert step.name == "step_3.rank_0"
    for words in ([], ["--", "train.py", "7"]):
        still = sonde(tmp_path, "verify", step, *words)
        assert still.returncode == 1, still.stdout + still.stderr
        assert "kept because loss > 9 * median(loss, 3) holds" in still.stdout
    (tmp_path / "fixed.py").write_text(MODULE_LOSS_SCRIPT.replace("x.abs().max() ** 2", "1.0"))
    done = sonde(tmp_path, "verify", step, "--", "fixed.py", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("fixed: loss ")


def test_a_step_that_is_not_deterministic_is_executed_several_times(tmp_path: Path) -> None:
    script = SCRIPT.replace("torch.sqrt(100.0 - x.sum(1, keepdim=True))", "COUNTER").replace(
        "COUNTER", "1.0 + int.from_bytes(__import__('os').urandom(2))"
    )
    step = guarded(tmp_path, script, words=["--repeat-every", "2", "--keep", "1"])
    assert step.name == "step_0.rank_0"
    still = sonde(tmp_path, "verify", step)
    assert still.returncode == 1, still.stdout + still.stderr
    assert "executed a second time the step computes something else" in still.stdout
    (tmp_path / "fixed.py").write_text(FIXED)
    done = sonde(tmp_path, "verify", step, "--script", "fixed.py")
    assert done.returncode == 0, done.stdout + done.stderr
    of_program = sonde(tmp_path, "verify", step, "--", "fixed.py")
    assert of_program.returncode == 2
    assert "it takes several executions" in of_program.stderr


@pytest.mark.parametrize(
    ("content", "words", "slug"),
    [
        (None, ["--", "missing.py"], "program-not-found"),
        ("", ["--"], "usage"),
        ("", ["--module", "a:b", "--", "program.py"], "usage"),
        ("print('nothing')", ["--", "program.py"], "setup-failed"),
        ("1 / 0", ["--", "program.py"], "setup-failed"),
        ("not python", ["--", "program.py"], "setup-failed"),
        (SCRIPT.replace("WIDTH = 8", "WIDTH = 9"), ["--", "program.py"], "module-differs"),
    ],
)
def test_what_cannot_be_executed_is_one_line(
    kept: Path, tmp_path: Path, content: str | None, words: list[str], slug: str
) -> None:
    if content is not None:
        (tmp_path / "program.py").write_text(content)
    done = sonde(tmp_path, "verify", kept, *words)
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith(f"[{slug}]"), done.stderr
    assert "Traceback" not in done.stderr


OUTSIDE = """\
import sys
import torch
from torch import nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(4):
    x, y = torch.randn(16, 6), torch.randn(16, 1)
    if step == 2:
        x[11] = 50.0
    optimizer.zero_grad()
    out = model(x)
    gain = torch.sqrt(100.0 - x.sum(1, keepdim=True))
    loss = (out * gain - y).square().mean()
    loss.backward()
    optimizer.step()
"""
CLAMPED = ("100.0 - x.sum(1, keepdim=True)", "(100.0 - x.sum(1, keepdim=True)).clamp(min=1)")


def test_what_the_loss_computes_from_the_batch_is_computed_by_the_changed_code(
    tmp_path: Path,
) -> None:
    step = guarded(tmp_path, OUTSIDE)
    still = sonde(tmp_path, "verify", step, "--", "train.py", 7)
    assert still.returncode == 1, still.stdout + still.stderr
    (tmp_path / "fixed.py").write_text(OUTSIDE.replace(*CLAMPED))
    losses = set()
    for seed in (7, 8):
        done = sonde(tmp_path, "verify", step, "--", "fixed.py", seed)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "[verify-labels]" not in done.stderr
        losses.add(done.stdout)
    assert len(losses) == 1  # the batch and the labels are those of the step, not the program's


def test_what_is_computed_before_the_network_is_called_cannot_be_verified(tmp_path: Path) -> None:
    gain = "    gain = torch.sqrt(100.0 - x.sum(1, keepdim=True))\n"
    script = OUTSIDE.replace(gain, "").replace(
        "    out = model(x)\n", gain + "    out = model(x)\n"
    )
    step = guarded(tmp_path, script)
    (tmp_path / "fixed.py").write_text(script.replace(*CLAMPED))
    done = sonde(tmp_path, "verify", step, "--", "fixed.py", 7)
    assert done.returncode == 2
    assert "computed before the network was called" in done.stderr


def test_an_optimizer_with_a_closure_is_ended_before_its_update(tmp_path: Path) -> None:
    body = OUTSIDE[OUTSIDE.index("    optimizer.zero_grad()") : OUTSIDE.index("    optimizer.step")]
    script = OUTSIDE.replace(
        body + "    optimizer.step()\n",
        "    def closure():\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "        return loss\n"
        + "    optimizer.step(closure)\n"
        + "    print('updated')\n",
    )
    step = guarded(tmp_path, script)
    for words, code in ((script, 1), (script.replace(*CLAMPED), 0)):
        (tmp_path / "changed.py").write_text(words)
        done = sonde(tmp_path, "verify", step, "--", "changed.py", 7)
        assert done.returncode == code, done.stdout + done.stderr
        assert "updated" not in done.stdout
