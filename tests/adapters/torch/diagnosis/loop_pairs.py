"""Pairs about the training loop and about what the loss is given."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

LOOP = [
    Pair(
        "accumulation-mean-of-means",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(20):
            opt.zero_grad()
            for part in (i[:4], i[4:]):
                (F.cross_entropy(model(x[part]), y[part]) / 2).backward()
            opt.step()
        """,
        "/ 2)",
        "* len(part) / 32)",
    ),
    Pair(
        "exploding-gradient",
        """
        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.out = nn.Linear(8, 8), nn.Linear(8, 1)
            def forward(self, h):
                for _ in range(12):
                    h = h + self.cell(h) * 2.0
                return self.out(h)
        model = Deep(); opt = torch.optim.SGD(model.parameters(), lr=1e-4)
        for i in batches(20):
            opt.zero_grad(); F.mse_loss(model(x[i]), value[i]).backward()
            opt.step()
        """,
        "self.cell(h) * 2.0",
        "self.cell(h) * 0.01",
    ),
    Pair(
        "lr-too-high",
        """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=5.0)
        fit(model, opt)
        """,
        "lr=5.0",
        "lr=0.005",
    ),
    Pair(
        "scheduler-outruns-skipped-steps",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=1)
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
        for n, i in enumerate(batches()):
            opt.zero_grad()
            loss = F.cross_entropy(model(x[i]), y[i]) * (float("inf") if n % 2 else 1.0)
            scaler.scale(loss).backward(); before = scaler.get_scale()
            scaler.step(opt); scaler.update()
            sched.step()
        """,
        '(float("inf") if n % 2 else 1.0)',
        "1.0",
    ),
    Pair(
        "scheduler-per-batch",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
        for n, i in enumerate(batches(60)):
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            sched.step()
        """,
        "    sched.step()",
        "    (sched.step() if n % 20 == 19 else None)",
    ),
    Pair(
        "sum-reduction-lr",
        """
        model = net(1); opt = torch.optim.SGD(model.parameters(), lr=0.02)
        for i in batches():
            opt.zero_grad()
            F.mse_loss(model(x[i]), value[i], reduction="sum").backward(); opt.step()
        """,
        ', reduction="sum"',
        "",
    ),
    Pair(
        "vanishing-gradient",
        """
        layers = [nn.Linear(8, 8)]
        for _ in range(12):
            layers += [nn.Sigmoid(), nn.Linear(8, 8)]
        model = nn.Sequential(*layers, nn.Linear(8, 2))
        fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
        """,
        "nn.Sigmoid()",
        "nn.SiLU(), nn.LayerNorm(8)",
    ),
    Pair(
        "batch-collapsed",
        """
        model = nn.Sequential(nn.Linear(8 * 32, 16), nn.ReLU(), nn.Linear(16, 1))
        opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad()
            pred = model(x[i].flatten()[None])
            F.mse_loss(pred.expand(32, 1), value[i]).backward(); opt.step()
        """,
        "F.mse_loss(pred.expand(32, 1), value[i])",
        "F.mse_loss(pred, value[i].mean(0, keepdim=True))",
    ),
    Pair(
        "softmax-wrong-dim",
        """
        model = net(4); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad()
            F.nll_loss(F.log_softmax(model(x[i]), dim=0), y[i]).backward(); opt.step()
        """,
        "dim=0",
        "dim=1",
    ),
]

_LANGUAGE_MODEL = """
        class LM(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb, self.out = nn.Embedding(20, 8), nn.Linear(8, 20)
            def forward(self, ids):
                h = self.emb(ids)
                h = F.scaled_dot_product_attention(h, h, h, is_causal=CAUSAL)
                return self.out(h)
        model = LM(); opt = torch.optim.Adam(model.parameters())
        ids = torch.randint(0, 20, (256, 11))
        for i in batches():
            opt.zero_grad()
            F.cross_entropy(model(ids[i, :-1]).flatten(0, 1), ids[i, TARGET].flatten()).backward()
            opt.step()
        """

LOOP += [
    Pair(
        "future-leak",
        _LANGUAGE_MODEL.replace("CAUSAL", "False").replace("TARGET", "1:"),
        "is_causal=False",
        "is_causal=True",
    ),
    Pair(
        "target-not-shifted",
        _LANGUAGE_MODEL.replace("CAUSAL", "True").replace("TARGET", ":-1"),
        "ids[i, :-1].flatten()",
        "ids[i, 1:].flatten()",
    ),
]
