"""Models of other people train under ``sonde run`` as they are, and dump."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.e2e.running import bare, observed

from sonde.dump.reader import Dump

MODELS = ["gpt2", "bert", "llama", "resnet18"]


def test_models_of_others_train_to_the_same_bits_and_dump_without_code_for_them(
    tmp_path: Path,
) -> None:
    pytest.importorskip("transformers")
    alone = bare("models.py", *MODELS)
    assert alone.returncode == 0, alone.stderr
    seen = observed(["--dump-to", str(tmp_path)], "models.py", *MODELS)
    assert seen.returncode == 0, seen.stderr
    assert seen.stdout == alone.stdout
    assert seen.stderr.count("sonde:") == 1
    assert "sonde: dumped steps 0-7: " in seen.stderr
    dump = Dump(tmp_path)
    assert dump.check() == ()
    assert dump.steps() == tuple(range(8))
    roots = {
        node.scope.split("/")[1]
        for graph in dump.graphs()
        for node in graph.ops
        if node.scope.startswith("Default/network-")
    }
    assert roots == {
        "network-GPT2LMHeadModel",
        "network-BertForMaskedLM",
        "network-LlamaForCausalLM",
        "network-ResNet18",
    }
    names = {node.name for graph in dump.graphs() for node in graph.ops}
    assert (
        "Default/network-GPT2LMHeadModel/transformer-GPT2Model/h-ModuleList/0-GPT2Block/"
        "attn-GPT2Attention/c_attn-Conv1D/addmm-op0" in names
    )
    assert (
        "Gradients/Default/network-ResNet18/layers-ModuleList/3-Sequential/1-Block/conv2-Conv2d/"
        "convolution_backward-op0" in names
    )
    losses = [line.split()[1] for line in alone.stdout.splitlines() if "." in line]
    found = [
        float(record.numpy())
        for record in dump.tensors(op="name-regex(.*nll_loss_forward-op0)", io="output")
        if record.key.slot == 0
    ]
    assert np.allclose(found, [float(loss) for loss in losses], rtol=1e-6)
    for graph in dump.graphs():
        for node in graph.ops:
            assert node.sources, node.name
            assert "/torch/" not in node.sources[0].file
