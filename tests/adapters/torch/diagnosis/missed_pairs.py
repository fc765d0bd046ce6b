"""Pairs of bugs that scripts showed which had not been seen when the rules were written."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

MISSED = [
    Pair(
        "dropout-in-eval",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 3)
                self.drop = nn.Dropout(0.3)
            def forward(self, rows):
                return self.b(nn.Dropout(0.3)(torch.relu(self.a(rows))))
        model = Net(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            model.eval()
            with torch.no_grad():
                model(x[:8] + 1)
            model.train()
        """,
        "nn.Dropout(0.3)(torch",
        "self.drop(torch",
    ),
    Pair(
        "double-softmax",
        """
        policy = net(3); opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
        for i in batches():
            chosen = torch.distributions.Categorical(logits=policy(x[i]).softmax(-1))
            action = chosen.sample()
            reward = (action == y[i]).float() - 0.5
            opt.zero_grad(); (-reward * chosen.log_prob(action)).mean().backward(); opt.step()
        """,
        ".softmax(-1))",
        ")",
    ),
    Pair(
        "empty-reduction",
        """
        model = net(1); opt = torch.optim.SGD(model.parameters(), lr=0.01)
        for n, i in enumerate(batches()):
            has = x[i, 0] > (9.0 if n == 7 else 0.0)
            given, wanted = model(x[i])[:, 0][has], x[i, 1][has]
            loss = F.smooth_l1_loss(given, wanted)
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        "F.smooth_l1_loss(given, wanted)",
        "F.smooth_l1_loss(given, wanted, reduction='sum') / has.sum().clamp(min=1)",
    ),
    Pair(
        "frozen-stage-trains",
        """
        first = net(3); opt = torch.optim.Adam(first.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(first(x[i]), y[i]).backward(); opt.step()
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        for p in model[0].parameters():
            p.require_grad = False
        opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "p.require_grad",
        "p.requires_grad",
    ),
    Pair(
        "softmax-wrong-dim",
        """
        class Pool(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.score, self.out = nn.Linear(2, 6), nn.Linear(6, 1), nn.Linear(6, 3)
            def forward(self, rows):
                h = torch.tanh(self.inner(rows.view(-1, 4, 2)))
                return self.out((self.score(h).softmax(-1) * h).sum(1))
        model = Pool(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "softmax(-1)",
        "softmax(1)",
    ),
    Pair(
        "stale-optimizer-params",
        """
        model = nn.ModuleDict({"table": nn.Embedding(3, 4), "out": nn.Linear(12, 3)})
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = model
            def forward(self, rows, kinds):
                return self.parts["out"](torch.cat([self.parts["table"](kinds), rows], 1))
        net_ = Net(); opt = torch.optim.Adam(net_.parameters())
        for n, i in enumerate(batches()):
            if n == 4:
                model["table"] = nn.Embedding(5, 4)
                pass
            loss = F.cross_entropy(net_(x[i], y[i]), y[i])
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        "                pass",
        "                opt = torch.optim.Adam(net_.parameters())",
    ),
    Pair(
        "sampler-same-order",
        """
        data = torch.utils.data.TensorDataset(x, y)
        model = net(3); opt = torch.optim.Adam(model.parameters())
        for epoch in range(4):
            torch.manual_seed(1)
            for rows, labels in torch.utils.data.DataLoader(data, 32, shuffle=True):
                loss = F.cross_entropy(model(rows), labels)
                opt.zero_grad(); loss.backward(); opt.step()
        """,
        "torch.manual_seed(1)",
        "torch.manual_seed(epoch)",
    ),
    Pair(
        "view-instead-of-permute",
        """
        pictures = torch.randn(96, 6, 5, 2) + y[:96, None, None, None]
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))
        opt = torch.optim.Adam(model.parameters())
        for n in range(24):
            i = torch.randperm(96)[:16]
            loss = F.cross_entropy(model(pictures[i].view(-1, 2, 6, 5)), y[i])
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        "view(-1, 2, 6, 5)",
        "permute(0, 3, 1, 2)",
    ),
]
