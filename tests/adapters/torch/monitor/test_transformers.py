"""Models of transformers under the guard: a NaN is named with op, line and row, and the training
goes on bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.monitor.test_actions import same
from tests.adapters.torch.replay.model_trainings import MODELS
from torch import nn

import sonde

BAD_STEP, BAD_ROW, BAD_TOKEN = 2, 1, 31


class Embedding(nn.Embedding):
    """Is NaN for one token."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return super().forward(ids) * torch.sqrt(torch.sign(BAD_TOKEN - 0.5 - ids)).unsqueeze(-1)


def train(name: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model: Any = MODELS[name]()
    plain = model.get_input_embeddings()
    embedding = Embedding(plain.num_embeddings, plain.embedding_dim)
    model.set_input_embeddings(embedding)
    model.tie_weights()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(4):
        tokens = torch.randint(0, BAD_TOKEN, (3, 6))
        if step == BAD_STEP:
            tokens[BAD_ROW, 3] = BAD_TOKEN
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *(each.detach() for each in model.parameters()), torch.get_rng_state()]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_nan_in_a_model_is_named_and_the_training_goes_on_bit_for_bit(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    bare = train(name)
    capfd.readouterr()
    with sonde.guard(tmp_path, keep=1):
        guarded = train(name)
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("sonde: ")]
    assert same(bare, guarded)
    assert said[0].startswith(f"sonde: step {BAD_STEP}: the loss is nan; it began at Default/")
    assert "-Embedding/sqrt-op" in said[0]
    assert "test_transformers.py" in said[0]
    assert f"from row {BAD_ROW} of 3 rows of the batch" in said[0]
    assert said[0].endswith(f"; kept in {tmp_path}/step_{BAD_STEP}.rank_0")
    assert "not deterministic" not in said[0]
