"""Trainings of models of a library, in small sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.adapters.torch.fitting import Trainings, weights

TRAININGS = Trainings()


MODELS: dict[str, Callable[[], Any]] = {}


def _model(make: Callable[[], Any]) -> Callable[[], Any]:
    """Add a model, and a training of it."""
    MODELS[make.__name__] = make

    def train() -> Any:
        return _train(make())

    train.__name__ = make.__name__
    TRAININGS.add(train)
    return make


def _train(model: Any, **extra: torch.Tensor) -> Any:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    losses = []
    for _ in range(2):
        tokens = torch.randint(0, 32, (2, 6))
        loss = model(input_ids=tokens, labels=tokens, **extra).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, weights(model)


@_model
def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=2, n_head=2))


@_model
def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    model = LlamaForCausalLM(config)
    model.gradient_checkpointing_enable()
    return model


@_model
def t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=32,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


@_model
def mixtral() -> Any:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=4,
        output_router_logits=True,
    )
    return MixtralForCausalLM(config)


@_model
def mamba() -> Any:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=32, hidden_size=16, state_size=4, num_hidden_layers=2)
    return MambaForCausalLM(config)
