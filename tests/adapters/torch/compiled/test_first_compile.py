"""The compiler is imported for Sonde only when the program compiles something, with any backend."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

PROGRAM = """
import contextlib, gc, json, sys
import torch
from torch import nn
from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.compiled.gate import on_first_compile
from sonde.capture.options import config_from_options
from pathlib import Path

INDUCTOR = "torch._inductor.compile_fx"
net = nn.Linear(2, 2)
optimizer = torch.optim.AdamW(net.parameters())


def train(run):
    run(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


train(net)
answers = {"loaded": "torch._dynamo" in sys.modules, "before": INDUCTOR in sys.modules}
config = config_from_options(Path(sys.argv[1]), {}, stats=True)
with attach(config, starts_at_once=False):
    train(net)
    answers["attached"] = INDUCTOR in sys.modules


def signs(compile):
    seen = []
    with contextlib.ExitStack() as undo:
        on_first_compile(lambda: seen.append("compiled"), undo)
        early = len(seen)
        first, second = compile(lambda x: x + 1), compile(lambda x: x + 2)
        later = len(seen)
    with contextlib.ExitStack() as undo:
        on_first_compile(lambda: seen.append("compiled before"), undo)
    del first, second
    gc.collect()
    return [early, later, seen[-1]]


answers["eager"] = signs(lambda run: torch.compile(run, backend="eager"))
answers["aot_eager"] = signs(lambda run: torch.compile(run, backend="aot_eager"))
answers["own"] = signs(lambda run: torch.compile(run, backend=lambda graph, inputs: graph.forward))
answers["dynamo"] = signs(lambda run: torch._dynamo.optimize("eager")(run))
seen = []
with contextlib.ExitStack() as undo:
    on_first_compile(lambda: seen.append("compiled"), undo)
    kept = torch.compile
    kept(lambda x: x, backend="eager")
    kept(lambda x: x, backend="eager")
answers["kept"] = len(seen)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    place: Path = tmp_path_factory.mktemp("program")
    script = place / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [warm_python(), str(script), str(place / "dump")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return loaded


def test_a_program_that_only_makes_an_optimizer_does_not_import_the_compiler(
    answers: dict[str, object],
) -> None:
    assert answers["loaded"] is True
    assert answers["before"] is answers["attached"] is False


@pytest.mark.parametrize("way", ["eager", "aot_eager", "own", "dynamo"])
def test_every_backend_is_a_sign_that_something_is_compiled(
    answers: dict[str, object], way: str
) -> None:
    assert answers[way] == [0, 1, "compiled before"]


def test_a_patched_function_that_the_program_keeps_is_a_sign_once(
    answers: dict[str, object],
) -> None:
    assert answers["kept"] == 1
