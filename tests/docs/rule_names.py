"""The names that the examples of rules take for granted, as real objects of a small program.

An example is a line or two of a larger program, executed with these names: a function, an
argument, a dimension or a shape that does not exist is an error.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from sonde.train import compare_weights, save_checkpoint


class Network(nn.Module):
    """A body, a head, and the methods that examples call."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(8, 8)
        self.extra = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.encoder(x)))  # type: ignore[no-any-return]


class LanguageModel(nn.Module):
    """Embedding and output share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(12, 8)
        self.out = nn.Linear(8, 12, bias=False)
        self.out.weight = self.emb.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.emb(ids))  # type: ignore[no-any-return]


def init_weights(module: nn.Module) -> None:
    for each in module.parameters():
        nn.init.normal_(each)


def names(folder: Path) -> dict[str, Any]:
    """New objects for one page; its files are in ``folder``."""
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, target = torch.rand(6, 8), torch.randint(0, 4, (6,))
    dataset = TensorDataset(x, target)
    loader = DataLoader(dataset, batch_size=3)
    logits = model(x)
    loss = functional.cross_entropy(logits, target)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(functional.cross_entropy(model(x), target)).backward()
    torch.save({"model": model.state_dict()}, folder / "last.pt")
    for name in ("net-1_1.ckpt", "net-1_2.ckpt"):
        save_checkpoint(model, folder / name)
    backbone, critic = copy.deepcopy(model), nn.utils.spectral_norm(nn.Linear(8, 1))
    return {
        # Libraries
        "torch": torch,
        "nn": nn,
        "F": functional,
        "np": np,
        "dist": dist,
        "sys": sys,
        "DDP": DistributedDataParallel,
        "DistributedDataParallel": DistributedDataParallel,
        "DataLoader": DataLoader,
        "DistributedSampler": DistributedSampler,
        "Adam": torch.optim.Adam,
        "SGD": torch.optim.SGD,
        "LambdaLR": torch.optim.lr_scheduler.LambdaLR,
        "clip_grad_norm_": nn.utils.clip_grad_norm_,
        "pad_sequence": nn.utils.rnn.pad_sequence,
        "compare_weights": compare_weights,
        # Networks
        "self": model,
        "model": model,
        "net": model,
        "Net": Network,
        "Tower": Network,
        "online": model,
        "backbone": backbone,
        "critic": critic,
        "lm": LanguageModel(),
        "layer": nn.Linear(8, 8),
        "head": nn.Linear(4, 1),
        "score": nn.Linear(8, 1),
        "mine": model.head.weight,
        "theirs": backbone.head.weight,
        "new": torch.rand(12, 8),
        "attention": nn.MultiheadAttention(8, 2, batch_first=True),
        "attn": nn.MultiheadAttention(8, 2, batch_first=True),
        "shard": model.head,
        "init_weights": init_weights,
        # Training
        "opt": optimizer,
        "optimizer": optimizer,
        "scaler": scaler,
        "loader": loader,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 5),
        "params": list(model.parameters()),
        "criterion": nn.CrossEntropyLoss(),
        "train": lambda _: None,
        "evaluate": lambda network: network.eval(),
        "dataset": dataset,
        "data": dataset,
        "validation_loss": 0.5,
        "hook": lambda *_: None,
        "fast": model,
        "compiled": model,
        "step": 2,
        # Tensors
        "x": x,
        "y": target,
        "h": torch.rand(6, 8),
        "z": torch.rand(6, 8),
        "logits": logits,
        "target": target,
        "loss": loss,
        "rows": torch.arange(6),
        "q": torch.rand(2, 3, 8),
        "k": torch.rand(2, 3, 8),
        "v": torch.rand(2, 3, 8),
        "u": torch.rand(6, 8),
        "mask": torch.ones(6, 4),
        "keep": torch.ones(6, 4),
        "scores": torch.rand(6, 4),
        "padding": torch.zeros(2, 3, dtype=torch.bool),
        "ids": torch.randint(0, 4, (6,)),
        "input_ids": torch.randint(0, 4, (2, 6)),
        "errors": torch.rand(6, 4),
        "counts": torch.full((8,), 100.0),
        "array": np.zeros((2, 8)),
        "image": np.zeros((2, 8)),
        "probability": torch.rand(4),
        "weight": torch.rand(4, 8),
        "noise": torch.rand(6, 8),
        "batch": torch.rand(6, 8),
        # Numbers
        "rank": 0,
        "world_size": 2,
        "seed": 0,
        "n": 6,
        "pad": 0,
        "temperature": 0.5,
        "best": 0.1,
        "total": 0.0,
        "history": [],
        "kl": loss,
        "perm": torch.randperm,
        "f": torch.sum,
        "load": lambda rank: dataset,
        "decode": str,
    }


def own_names(page: str, known: dict[str, Any]) -> dict[str, Any]:
    """The names that mean something else on ``page`` than elsewhere."""
    model = known["model"]
    for each in model.parameters():
        each.grad = torch.zeros_like(each)
    pages: dict[str, Callable[[], dict[str, Any]]] = {
        "accumulation-mean-of-means": lambda: {"doc": known["ids"], "target": known["ids"]},
        "backward-passes-differ": lambda: {
            "loss": lambda rows: model(rows).sum(),
            "batch": torch.rand(128, 8),
        },
        "batch-collapsed": lambda: {"rows": [torch.arange(3), torch.arange(2)]},
        "clip-norm-wrong": lambda: {"shards": _sharded(model)},
        "empty-reduction": lambda: {"mask": torch.zeros(6, 4, dtype=torch.bool)},
        "gradients-not-exchanged": lambda: {"ddp": DistributedDataParallel(model)},
        "gradients-summed-not-averaged": lambda: {"p": model.head.weight},
        "layout-flip": lambda: {"x": torch.rand(2, 3, 4, 4)},
        "loss-broadcast": lambda: {"model": nn.Linear(8, 1), "y": torch.rand(6)},
        "lost-communication": lambda: {"parameter": model.head.weight},
        "accumulation-not-divided": lambda: {"micro_batches": [(known["x"], known["y"])]},
        "only-last-micro-batch": lambda: {"ddp": DistributedDataParallel(model)},
        "padding-not-masked": lambda: {
            "outputs": torch.rand(2, 3),
            "targets": [torch.rand(3), torch.rand(2)],
        },
        "sqrt-at-zero": lambda: {"v": known["u"].clone()},
        "view-instead-of-permute": lambda: {
            "time": 3,
            "batch": 2,
            "channels": 8,
            "x": torch.rand(2, 3, 8),
            "pictures": torch.rand(2, 32, 32, 3),
        },
        "zero-grad-before-step": lambda: {"loader": [known["x"]], "criterion": torch.sum},
    }
    return pages[page]() if page in pages else {}


def _sharded(model: nn.Module) -> list[nn.Parameter]:
    """Parameters that are DTensors with gradients, over a mesh of one process."""
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    model(torch.rand(6, 8)).sum().backward()
    return [each for each in model.parameters() if each.grad is not None]
