"""Pairs about values that are not finite or lost in rounding."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

PRECISION = [
    Pair(
        "adam-eps-underflow",
        """
        model = net().half(); opt = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-8)
        for i in batches(10):
            opt.zero_grad(); F.cross_entropy(model(x[i].half()).float(), y[i]).backward()
            opt.step()
        """,
        "eps=1e-8",
        "eps=1e-4",
    ),
    Pair(
        "catastrophic-cancellation",
        """
        class Scale(nn.Module):
            def forward(self, x):
                mean = x.mean(0)
                var = (x * x).mean(0) - mean * mean
                return (x - mean) / (var.clamp(min=0) + 1e-8).sqrt()
        x = 10132.5 + 0.004 * x
        model = nn.Sequential(Scale(), net()); fit(model, torch.optim.Adam(model.parameters()))
        """,
        "(x * x).mean(0) - mean * mean",
        "x.var(0)",
    ),
    Pair(
        "fully-masked-attention-row",
        """
        model = nn.Linear(8, 8); head = nn.Linear(8, 2)
        opt = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)
        lengths = torch.arange(32) % 5
        for i in batches(10):
            scores = model(x[i])[:, :4].masked_fill(torch.arange(4) >= lengths[:, None], -math.inf)
            mixed = scores.softmax(-1) @ x[:4]
            opt.zero_grad(); F.cross_entropy(head(mixed), y[i]).backward(); opt.step()
        """,
        "lengths[:, None]",
        "lengths[:, None].clamp(min=1)",
    ),
    Pair(
        "half-gradient-underflow",
        """
        model = net(2, 64); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(20):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x[i])
            (F.cross_entropy(out.float(), y[i]) * 1e-5).backward(); opt.step()
        """,
        "* 1e-5",
        "",
    ),
    Pair(
        "half-overflow-dropout",
        """
        drop = nn.Dropout(0.5); model = net(); opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        for i in batches(10):
            given = drop((x[i] * 4e4).clamp(-4e4, 4e4).half()).float() / 4e4
            opt.zero_grad(); F.cross_entropy(model(given), y[i]).backward(); opt.step()
        """,
        "4e4",
        "1e4",
    ),
    Pair(
        "log-of-softmax",
        """
        model = net(4); opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        for i in batches(10):
            logits = model(x[i]) * 2000
            log = torch.log(torch.softmax(logits, 1))
            opt.zero_grad(); (-log.gather(1, y[i, None]).mean()).backward(); opt.step()
        """,
        "torch.log(torch.softmax(logits, 1))",
        "torch.log_softmax(logits, 1)",
    ),
    Pair(
        "low-precision-counter",
        """
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = net()
                self.register_buffer("seen", torch.tensor(200.0))
            def forward(self, x):
                self.seen += 1
                return self.body(x)
        model = Counting(); model.seen = model.seen.to(torch.bfloat16)
        fit(model, torch.optim.SGD(model.parameters(), lr=0.1), 120)
        """,
        "torch.bfloat16",
        "torch.int64",
    ),
    Pair(
        "low-precision-update-lost",
        """
        model = net().to(torch.bfloat16); opt = torch.optim.SGD(model.parameters(), lr=1e-4)
        x = x.to(torch.bfloat16)
        fit(model, opt)
        """,
        "torch.bfloat16",
        "torch.float32",
    ),
    Pair(
        "non-finite-loss",
        """
        model = net(1); opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        value[77] = float("nan")
        for i in batches():
            opt.zero_grad(); F.mse_loss(model(x[i]), value[i]).backward(); opt.step()
        """,
        'float("nan")',
        "0.0",
    ),
    Pair(
        "sqrt-at-zero",
        """
        model = nn.Linear(8, 8); opt = torch.optim.SGD(model.parameters(), lr=1e-2)
        for n, i in enumerate(batches(20)):
            one, two = model(x[i]), model(x[i if n == 5 else i.flip(0)])
            distance = ((one - two) ** 2).sum(1).sqrt()
            opt.zero_grad(); F.mse_loss(distance, value[i, 0].abs()).backward(); opt.step()
        """,
        ".sum(1).sqrt()",
        ".sum(1).add(1e-6).sqrt()",
    ),
]
