"""Pairs about samples, labels and loaders, and about ranks.

Trainings of ranks run twice in one process, first as rank 1, then as rank 0, which compares.
"""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

_LOADER = """
        from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
        import numpy as np
        class Rows(Dataset):
            def __init__(self):
                self.rng = np.random.default_rng(0)
            def __len__(self):
                return 64
            def __getitem__(self, n):
                return x[n] + float(self.rng.normal(0, 0.1)), y[n]
        class Stream(IterableDataset):
            def __iter__(self):
                info = get_worker_info()
                for n in range(0, 64):
                    yield x[n], y[n]
        def seed(worker):
            get_worker_info().dataset.rng = np.random.default_rng(worker)
        loader = DataLoader(KIND)
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for given, label in loader:
            opt.zero_grad(); F.cross_entropy(model(given), label).backward(); opt.step()
        """

DATA = [
    Pair(
        "class-imbalance",
        """
        y = (torch.arange(256) % 40 == 0).long()
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(60):
            opt.zero_grad()
            F.cross_entropy(model(x[i]), y[i], weight=None).backward(); opt.step()
        """,
        "weight=None",
        "weight=torch.tensor([1.0, 39.0])",
    ),
    Pair(
        "duplicate-augmentation-across-workers",
        _LOADER.replace("KIND", "Rows(), 8, num_workers=2"),
        "num_workers=2)",
        "num_workers=2, worker_init_fn=seed)",
    ),
    Pair(
        "duplicate-samples-across-workers",
        _LOADER.replace("KIND", "Stream(), 8, num_workers=2"),
        "range(0, 64)",
        "range(info.id, 64, info.num_workers)",
    ),
    Pair(
        "labels-misaligned",
        """
        y = torch.arange(256) % 4
        x = torch.randn(4, 8)[y] * 2 + 0.3 * torch.randn(256, 8)
        y = y[torch.randperm(256)]
        model = net(4); fit(model, torch.optim.SGD(model.parameters(), lr=0.1), 100)
        """,
        "y = y[torch.randperm(256)]",
        "",
        status="hypothesis",
    ),
    Pair(
        "sampler-same-order",
        """
        from torch.utils.data import DistributedSampler
        sampler = DistributedSampler(range(256), num_replicas=2, rank=0)
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            i = torch.tensor(list(sampler))
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "i = torch",
        "sampler.set_epoch(epoch); i = torch",
    ),
    Pair(
        "train-val-overlap",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches():
            i = i % 200
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(x[180:]), y[180:])
        """,
        "180:",
        "200:",
    ),
]

DATA_SCALE = Pair(
    "unnormalised-input",
    """
        raw = 900 + 500 * x
        model = nn.Sequential(nn.Linear(8, 16), nn.Sigmoid(), nn.Linear(16, 2))
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(raw[i]), y[i]).backward(); opt.step()
        """,
    "raw = 900 + 500 * x",
    "raw = x",
)

_RANKS = """
        import os
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        rank, ranks = int(os.environ["RANK"]), 2
"""

RANKS = [
    Pair(
        "clip-on-one-rank",
        _RANKS
        + """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(10):
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward()
            if rank == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        """,
        "if rank == 0:",
        "if rank >= 0:",
    ),
    Pair(
        "ddp-bypassed",
        _RANKS
        + """
        model = net(); wrapped = DistributedDataParallel(model)
        fit(model, torch.optim.SGD(wrapped.parameters(), lr=0.1))
        """,
        "fit(model,",
        "fit(wrapped,",
    ),
    Pair(
        "ddp-bypassed",
        _RANKS
        + """
        class Scoring(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = net()
            def forward(self, rows):
                return self.body(rows)
            def score(self, rows):
                return self.body(rows)
        wrapped = DistributedDataParallel(Scoring())
        fit(wrapped.module.score, torch.optim.SGD(wrapped.parameters(), lr=0.1))
        """,
        "fit(wrapped.module.score,",
        "fit(wrapped,",
    ),
    Pair(
        "ddp-params-replaced",
        _RANKS
        + """
        model = net(); wrapped = DistributedDataParallel(model, find_unused_parameters=True)
        model[2] = nn.Linear(16, 2)
        fit(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1))
        """,
        "model[2] = nn.Linear(16, 2)",
        "",
    ),
    Pair(
        "gradients-summed-not-averaged",
        _RANKS
        + """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(10):
            opt.zero_grad(); loss = F.cross_entropy(model(x[i]), y[i]); loss.backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
            opt.step()
        """,
        "dist.all_reduce(p.grad)",
        "dist.all_reduce(p.grad); p.grad /= ranks",
    ),
    Pair(
        "gradients-summed-not-averaged",
        _RANKS
        + """
        from torch.nn.utils import parameters_to_vector
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(10):
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward()
            together = parameters_to_vector([p.grad for p in model.parameters()])
            dist.all_reduce(together)
            start = 0
            for p in model.parameters():
                p.grad = together[start : (start := start + p.numel())].view_as(p)
            opt.step()
        """,
        "dist.all_reduce(together)",
        "dist.all_reduce(together); together /= ranks",
    ),
    Pair(
        "ranks-differ-at-init",
        _RANKS
        + """
        torch.manual_seed(rank)
        model = net(); fit(model, torch.optim.SGD(model.parameters(), lr=0.1), 6)
        """,
        "manual_seed(rank)",
        "manual_seed(0)",
    ),
]

RANKS.append(
    Pair(
        "lost-communication",
        _RANKS
        + """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for n, i in enumerate(batches(24)):
            opt.zero_grad(); F.cross_entropy(model(x[i]) * (1 + rank), y[i]).backward()
            opt.step()
        """,
        "* (1 + rank)",
        "",
    )
)

SUMMED = next(each for each in RANKS if each.kind == "gradients-summed-not-averaged")
HEALTHY_SUMS = {
    "gradients divided before the sum": SUMMED.code.replace(
        "dist.all_reduce(p.grad)", "p.grad /= ranks; dist.all_reduce(p.grad)"
    ),
    "loss divided by the number of ranks": SUMMED.code.replace(
        "loss.backward()", "(loss / ranks).backward()"
    ),
    "loss multiplied by a part": SUMMED.code.replace(
        "loss.backward()", "(loss * (1 / ranks)).backward()"
    ),
    "loss divided by the targets of all ranks": SUMMED.code.replace(
        "y[i]); loss.backward()", 'y[i], reduction="sum") / (32 * ranks); loss.backward()'
    ),
    "a part of the gradients": SUMMED.code.replace(
        "for p in model.parameters():", "for p in [model[0].weight]:"
    ),
}
