"""``sonde replay`` in a fresh process: a step of a script that nobody prepared for it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.cli.replayed_steps import SCRIPT, guarded, sonde

from sonde.cli.main import main
from sonde.cli.replay_loop import replayed_program
from sonde.dump.reader import Dump


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The captured step; its script is two folders above it."""
    return guarded(tmp_path_factory.mktemp("guarded"))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_step_is_exact_and_its_origin_is_named(kept: Path) -> None:
    folder = kept.parents[1]
    before = files_of(folder)
    done = sonde(folder, "replay", kept)
    assert done.returncode == 0, done.stderr
    first, exact, origin, *more = done.stdout.splitlines()
    assert first == "step 3 of rank 0: kept because the loss is nan"
    assert exact.startswith("exact: ")
    assert exact.endswith("are those of the training, bit for bit")
    assert "sqrt" in origin
    assert f"train.py:{1 + SCRIPT[: SCRIPT.index('gain =')].count(chr(10))}" in origin
    assert "    from row 11 of the batch of 16" in more
    assert any("find out why it is negative" in each for each in more)
    assert "unpickled; its classes are those of" in done.stderr
    assert (folder / "started.txt").read_text() == "once "  # the script's statements did not run
    assert files_of(folder) == before


def test_each_question_has_one_line(kept: Path) -> None:
    folder = kept.parents[1]
    done = sonde(
        folder, "replay", "sonde_steps", "--times", 3, "--fp64", "--no-dropout", "--rows",
        "--set", "norm.eps=0.01", "--set", "lr=1e-5",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, times, dropout, rows, settings, fp64 = done.stdout.splitlines()
    assert times == "deterministic: 3 executions are equal, bit for bit"
    assert dropout.startswith("not dropout: without dropout it happens, too (loss nan")
    assert rows.startswith("row 11 of 16 suffices (")
    assert settings.startswith("with norm.eps=0.01, lr=1e-5 it happens, too")
    assert fp64.startswith("not rounding: in float64 it happens, too (loss nan")


def test_a_dump_of_the_step_is_an_ordinary_one(kept: Path, tmp_path: Path) -> None:
    done = sonde(kept.parents[1], "replay", kept, "--stats", "--dump-to", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    dump = Dump(tmp_path / "out")
    assert list(dump.steps()) == [3]
    assert any("sqrt" in str(each) for each in dump.tensors(step=3))


def test_json_has_the_findings(kept: Path) -> None:
    done = sonde(kept.parents[1], "replay", kept, "--json")
    document = json.loads(done.stdout)
    assert [each["rule"] for each in document["findings"]] == ["replay-exact", "non-finite-origin"]
    assert document["findings"][1]["evidence"]["rows"] == [11]
    assert document["network"] == "pickle"


def test_a_factory_gets_the_weights_of_the_step(kept: Path) -> None:
    done = sonde(kept.parents[1], "replay", kept, "--module", "train:Net")
    assert done.returncode == 0, done.stderr
    assert "the network: built by train:Net" in done.stderr
    assert "bit for bit" in done.stdout


def test_the_set_up_runs_only_when_asked(kept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept.parents[1], folder)
    step = folder / "sonde_steps" / kept.name
    manifest = json.loads((step / "manifest.json").read_text())
    manifest["program"] |= {"file": str(folder / "train.py"), "directory": str(folder)}
    (step / "manifest.json").write_text(json.dumps(manifest))
    before = (folder / "started.txt").read_text()
    done = sonde(folder, "replay", step, "--run-setup")
    assert done.returncode == 0, done.stderr
    assert "taken from" in done.stderr
    assert "bit for bit" in done.stdout
    assert "trained" not in done.stdout
    assert (folder / "started.txt").read_text() == before + "once "


def changed(kept: Path, folder: Path, old: str, new: str) -> Path:
    """A script like that of the step, with another text in it."""
    assert old in SCRIPT
    path = folder / "changed.py"
    path.write_text(SCRIPT.replace(old, new))
    return path


def test_other_shapes_are_named(kept: Path, tmp_path: Path) -> None:
    path = changed(kept, tmp_path, "WIDTH = 8", "WIDTH = 9")
    done = sonde(tmp_path, "replay", kept, "--module", f"{path}:Net")
    assert done.returncode == 2
    assert "first.weight has the shape [9, 6], in the step [8, 6]" in done.stderr
    assert done.stderr.rstrip().endswith("[module-differs]")


def test_a_class_that_is_gone_is_named(kept: Path, tmp_path: Path) -> None:
    path = changed(kept, tmp_path, "class Net", "class Other")
    done = sonde(tmp_path, "replay", kept, "--script", path)
    assert done.returncode == 2
    assert "'Net'" in done.stderr
    assert "[code-missing]" in done.stderr


def test_a_name_that_a_statement_sets_is_named(kept: Path, tmp_path: Path) -> None:
    path = changed(kept, tmp_path, "h * gain", "h * gain * started.fileno()")
    done = sonde(tmp_path, "replay", kept, "--script", path)
    assert done.returncode == 2
    assert "the network uses 'started', which the script sets in a statement" in done.stderr
    assert "[code-missing]" in done.stderr


def test_another_version_of_torch_is_said(kept: Path, tmp_path: Path) -> None:
    step = tmp_path / kept.name
    shutil.copytree(kept, step)
    manifest = json.loads((step / "manifest.json").read_text())
    manifest["versions"]["torch"] = "1.0"
    (step / "manifest.json").write_text(json.dumps(manifest))
    done = sonde(tmp_path, "replay", step)
    assert done.returncode == 0, done.stderr
    assert "captured with torch 1.0, this is 2." in done.stderr


def test_a_step_that_others_can_write_needs_trust(kept: Path, tmp_path: Path) -> None:
    step = tmp_path / kept.name
    shutil.copytree(kept, step)
    (step / "modules.pickle").chmod(0o666)
    refused = sonde(tmp_path, "replay", step)
    assert refused.returncode == 2
    assert "[step-untrusted]" in refused.stderr
    assert sonde(tmp_path, "replay", step, "--trust").returncode == 0


def test_the_debugger_names_the_program_that_is_replayed(kept: Path) -> None:
    script, arguments = replayed_program((str(kept), "--trust"))
    assert script == "replay of train.py"
    assert re.fullmatch(r"\(step \d+\)", arguments[-1])


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["nowhere"], "step-none"),
        (["."], "step-none"),
        (["{step}", "--eager", "--compiled"], "usage"),
        (["{step}", "--debug", "--rows"], "usage"),
        (["{step}", "--port", "1"], "usage"),
        (["{step}", "--times", "1"], "usage"),
        (["{step}", "--set", "lr"], "usage"),
        (["{step}", "--set", "norm.epsilon=1"], "replay-setting"),
        (["{step}", "--module", "nothing"], "module-factory"),
        (["{step}", "--module", "train:main", "--run-setup"], "usage"),
        (["{step}", "--module", "json:dumps"], "module-factory"),
        (["{step}", "--module", "builtins:dict"], "module-factory"),
        (["{step}", "--script", "missing.py"], "script-missing"),
        ([], "usage"),
    ],
)
def test_a_mistake_is_one_line(
    kept: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    slug: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["replay", *(word.format(step=kept) for word in words)]) == 2
    assert capsys.readouterr().err.rstrip().endswith(f"[{slug}]")


@pytest.mark.parametrize("name", ["manifest.json", "weights.safetensors", "modules.pickle"])
def test_a_damaged_file_is_one_line(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    step = tmp_path / kept.name
    shutil.copytree(kept, step)
    content = (step / name).read_bytes()
    (step / name).write_bytes(content[: len(content) // 2])
    assert main(["replay", str(step)]) == 2
    assert capsys.readouterr().err.rstrip().endswith("[step-damaged]")


MOMENTUM = (
    SCRIPT.replace("import sys\n", "import sys\nimport sonde\n")
    .replace("AdamW(model.parameters(), lr=0.001)", "SGD(model.parameters(), lr=0.5, momentum=0.9)")
    .replace("x[11] = 50.0", "sonde.trigger('to look at it')")
    .replace(
        "        optimizer.step()\n",
        """\
        before = [each.detach().double() for each in model.parameters()]
        optimizer.step()
        if step == 3:
            after = [each.detach().double() for each in model.parameters()]
            update = sum(float((a - b).square().sum()) for a, b in zip(after, before))
            norm = sum(float(b.square().sum()) for b in before)
            print("update", (update / norm) ** 0.5)
""",
    )
)


def test_the_update_is_that_of_the_training_where_the_optimizers_state_was_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(MOMENTUM)
    trained = sonde(tmp_path, "run", "--guard", "--optimizer-state", "train.py")
    assert trained.returncode == 0, trained.stderr
    update = float(trained.stdout.split()[1])
    found = []
    for rate in (0.5, 0.05):
        done = sonde(tmp_path, "replay", "sonde_steps", "--set", f"lr={rate}", "--json")
        assert done.returncode == 0, done.stderr
        (finding,) = json.loads(done.stdout)["findings"]
        assert finding["status"] == "established"
        found.append(finding["evidence"]["update_ratio"])
    assert found == [pytest.approx(update, rel=1e-6), pytest.approx(update / 10, rel=1e-4)]
    done = sonde(tmp_path, "replay", "sonde_steps", "--dump-to", "out")
    assert done.returncode == 0, done.stderr
    assert any("optimizer" in str(each) for each in Dump(tmp_path / "out").tensors(step=3))


@pytest.mark.slow
def test_the_op_that_the_compiler_gets_wrong_is_named(tmp_path: Path) -> None:
    """``aot_eager_decomp_partition`` decomposes as Inductor does, without making machine code."""
    script = (
        SCRIPT.replace("self.norm(self.first(x))", "nn.functional.silu(self.first(x))")
        .replace("x[11] = 50.0", "import sonde; sonde.trigger('to look at it')")
        .replace("model = Net()", "model = torch.compile(Net(), backend=BACKEND)")
        .replace("WIDTH = 8\n", "WIDTH = 8\nBACKEND = 'aot_eager_decomp_partition'\n")
    )
    step = guarded(tmp_path, script)
    agrees = sonde(tmp_path, "replay", step, "--compile-check")
    assert agrees.returncode == 0, agrees.stderr
    assert agrees.stdout.splitlines()[-1] == "compiled code agrees"
    planted = tmp_path / "planted.py"
    planted.write_text(
        "import torch\n"
        "from torch._inductor.decomposition import decompositions\n"
        "def wrong(x):\n    return x * torch.sigmoid(1.01 * x)\n"
        "decompositions[torch.ops.aten.silu.default] = wrong\n"
        "from train import Net\n"
    )
    wrong = sonde(tmp_path, "replay", step, "--compile-check", "--module", f"{planted}:Net")
    assert wrong.returncode == 1, wrong.stdout + wrong.stderr
    assert "silu" in wrong.stdout
    assert "step 3: relative error to float64" in wrong.stdout


HEALTHY = SCRIPT.replace("x[11] = 50.0", "import sonde; sonde.trigger('to look at it')")


@pytest.mark.slow
@pytest.mark.parametrize(
    "built",
    [
        "torch.compile(Net(), backend='aot_eager', dynamic=True)",
        "Net(); model.compile(backend='aot_eager')",
    ],
)
def test_a_network_is_compiled_again_as_it_was(tmp_path: Path, built: str) -> None:
    """Inductor, the default, fuses ops: its results differ in the last bits."""
    step = guarded(tmp_path, HEALTHY.replace("model = Net()", f"model = {built}"))
    (module,) = json.loads((step / "manifest.json").read_text())["modules"]
    found = module.get("compilation") or module["compiled_parts"][""]
    assert found["backend"] == "aot_eager"
    done = sonde(tmp_path, "replay", step)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bit for bit" in done.stdout


def test_infinities_that_reach_neither_loss_nor_gradient_are_no_fault(tmp_path: Path) -> None:
    script = HEALTHY.replace(
        "return self.last(h * gain)",
        "mask = torch.log(torch.zeros_like(gain))\n"
        "        return self.last(torch.where(mask.isinf(), h * gain, mask))",
    )
    done = sonde(tmp_path, "replay", guarded(tmp_path, script))
    assert done.returncode == 0, done.stderr
    assert "begin at" not in done.stdout
