"""Pairs of bugs that concern a part: some parameters of a target, keys beside those of the input, a
root that only some selections hide, one layer that joins the batch."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

PARTIAL = [
    Pair(
        "aliased-target-network",
        """
        class Q(nn.Module):
            def __init__(self, body):
                super().__init__()
                self.body, self.value = body, nn.Linear(8, 2)
            def forward(self, x):
                return self.value(self.body(x))
        body = net(8)
        q, q_target = Q(body), Q(body)
        opt = torch.optim.Adam(q.parameters(), lr=1e-3)
        for i in batches():
            with torch.no_grad():
                goal = (y[i] == 1).float() + 0.9 * q_target(x[i]).amax(1)
            opt.zero_grad(); F.smooth_l1_loss(q(x[i])[:, 0], goal).backward(); opt.step()
            for old, new in zip(q_target.parameters(), q.parameters()):
                old.data.mul_(0.95).add_(0.05 * new.data)
        """,
        "Q(body), Q(body)",
        "Q(body), Q(net(8))",
    ),
    Pair(
        "mask-sense-inverted",
        """
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.out = nn.Embedding(20, 16, padding_idx=0), nn.Linear(16, 2)
                self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
                self.summary = nn.Parameter(torch.randn(1, 1, 16))
            def forward(self, ids):
                words = torch.cat([self.embed(ids), self.summary.expand(len(ids), 1, 16)], 1)
                hidden = F.pad(ids != 0, (0, 1))
                return self.out(self.attend(words, words, words, key_padding_mask=hidden)[0][:, -1])
        model = Reader(); opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for i in batches():
            ids = torch.randint(1, 20, (32, 9)) * (torch.arange(9) < torch.randint(3, 9, (32, 1)))
            opt.zero_grad(); F.cross_entropy(model(ids), (ids[:, 0] > 9).long()).backward()
            opt.step()
        """,
        "ids != 0",
        "ids == 0",
    ),
    Pair(
        "sqrt-at-zero",
        """
        model = net(4); opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for i in batches():
            z = model(x[i]); away = y[i][:, None] != y[i]
            gaps = (z[:, None] - z).pow(2).sum(-1).sqrt()
            near = gaps.masked_fill(away, 0.0).sum(1)
            far = gaps.masked_fill(~away, 9.0).amin(1)
            opt.zero_grad(); F.relu(near - far + 1).mean().backward(); opt.step()
        """,
        "sum(-1).sqrt()",
        "sum(-1).add(1e-9).sqrt()",
    ),
    Pair(
        "unsafe-where-branch",
        """
        model = net(4); opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for i in batches():
            z = model(x[torch.randperm(256)[:32]]); own = torch.eye(32, dtype=torch.bool)
            gaps = (z[:, None] - z).pow(2).sum(-1)
            near = gaps.sqrt().masked_fill(own, 9.0).amin(1)
            opt.zero_grad(); (-near).mean().backward(); opt.step()
        """,
        "gaps.sqrt().masked_fill(own, 9.0)",
        "gaps.masked_fill(own, 81.0).sqrt()",
    ),
    Pair(
        "batch-collapsed",
        """
        class Centre(nn.Module):
            def forward(self, x):
                return x.mean(0).expand(len(x), -1)
        model = nn.Sequential(nn.Linear(8, 16), Centre(), nn.ReLU(), nn.Linear(16, 2))
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "x.mean(0).expand(len(x), -1)",
        "x - x.mean(0)",
    ),
    Pair(
        "stale-optimizer-params",
        """
        class Growing(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers, self.out = nn.ModuleList([nn.Linear(8, 8)]), nn.Linear(8, 2)
            def grow(self):
                self.layers.append(nn.Linear(8, 8)); self.out = nn.Linear(8, 2)
            def forward(self, x):
                for layer in self.layers:
                    x = torch.relu(layer(x))
                return self.out(x)
        model = Growing(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for stage in range(2):
            fit(model, opt, 34); model.grow()
        fit(model, opt, 20)
        """,
        "model.grow()",
        "model.grow(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)",
    ),
    Pair(
        "lr-too-low",
        """
        model = net(); opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)
        warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: (step + 1) / 1e6)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step(); warm.step()
        """,
        "1e6",
        "20",
    ),
    Pair(
        "train-val-overlap",
        """
        from torch.utils.data import DataLoader, Subset, TensorDataset
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        data = TensorDataset(x, y)
        train, held = Subset(data, range(200)), Subset(data, range(150, 256))
        for epoch in range(4):
            model.train()
            for given, label in DataLoader(train, 25, shuffle=True):
                opt.zero_grad(); F.cross_entropy(model(given), label).backward(); opt.step()
            model.eval()
            with torch.no_grad():
                for given, label in DataLoader(held, 53):
                    F.cross_entropy(model(given), label)
        """,
        "range(150, 256)",
        "range(200, 256)",
    ),
]
HEALTHY_PARTS = {
    "a teacher with the frozen stem of its student": """
        class Net(nn.Module):
            def __init__(self, stem):
                super().__init__()
                self.stem, self.head = stem, nn.Linear(8, 2)
            def forward(self, x):
                return self.head(self.stem(x))
        stem = net(8).requires_grad_(False)
        student, teacher = Net(stem), Net(stem)
        opt = torch.optim.Adam(student.head.parameters(), lr=1e-3)
        for i in batches():
            with torch.no_grad():
                wanted = teacher(x[i])
            loss = F.cross_entropy(student(x[i]), y[i]) + F.mse_loss(student(x[i]), wanted)
            opt.zero_grad(); loss.backward(); opt.step()
            for old, new in zip(teacher.head.parameters(), student.head.parameters()):
                old.data.lerp_(new.data, 0.05)
        """,
    "heads of teacher and student on one trunk": """
        trunk = net(8); student, teacher = nn.Linear(8, 2), nn.Linear(8, 2)
        opt = torch.optim.Adam([*trunk.parameters(), *student.parameters()], lr=1e-3)
        for i in batches():
            h = trunk(x[i])
            with torch.no_grad():
                wanted = teacher(h)
            loss = F.cross_entropy(student(h), y[i]) + F.mse_loss(student(h), wanted)
            opt.zero_grad(); loss.backward(); opt.step()
            for old, new in zip(teacher.parameters(), student.parameters()):
                old.data.lerp_(new.data, 0.05)
        """,
    "a set whose elements get the answer of the set": """
        class Sets(nn.Module):
            def __init__(self):
                super().__init__()
                self.each, self.all = nn.Linear(8, 16), nn.Linear(16, 2)
            def forward(self, x):
                h = torch.relu(self.each(x))
                return self.all(h + h.mean(1, keepdim=True))
        model = Sets(); opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for i in batches():
            sets = x[i].view(8, 4, 8)
            loss = F.cross_entropy(model(sets).flatten(0, 1), y[i])
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "a warm-up by a formula, longer than the training": """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: (step + 1) / 50_000)
        for i in batches(60):
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step(); warm.step()
        """,
}
NO_RATE = """
    class Relative(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": None})
        @torch.no_grad()
        def step(self, closure=None):
            for p in self.param_groups[0]["params"]:
                p -= 1e-2 * p.norm() * p.grad / (p.grad.norm() + 1e-12)
    model = net(); opt = Relative(model.parameters())
    for i in batches():
        opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
    """
"""An optimizer with relative steps, which has no rate."""
