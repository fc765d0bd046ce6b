"""Pairs that write a known bug in another style, and healthy trainings that look like one."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

STYLES = [
    Pair(
        "aliased-target-network",
        """
        online = net(8)
        target = online
        head = nn.Linear(8, 8); opt = torch.optim.Adam([*online.parameters(), *head.parameters()])
        for i in batches():
            with torch.no_grad():
                wanted = target(x[i])
            opt.zero_grad(); F.mse_loss(head(online(x[i])), wanted).backward(); opt.step()
            with torch.no_grad():
                for mean, now in zip(target.parameters(), online.parameters()):
                    mean.mul_(0.99).add_(now, alpha=0.01)
        """,
        "target = online",
        "target = copy.deepcopy(online)",
    ),
    Pair(
        "detached-graph",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches():
            guess = model(x[i]).argmax(1).float()
            loss = F.mse_loss(guess, y[i].float()).requires_grad_()
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ".argmax(1).float()",
        "[:, 1]",
    ),
    Pair(
        "future-leak",
        """
        class LM(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb, self.out = nn.Embedding(20, 16), nn.Linear(16, 20)
                layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
                self.body = nn.TransformerEncoder(layer, 1)
            def forward(self, ids):
                mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
                return self.out(self.body(self.emb(ids), torch.zeros_like(mask)))
        model = LM(); opt = torch.optim.Adam(model.parameters())
        ids = torch.randint(0, 20, (256, 11))
        for i in batches():
            opt.zero_grad()
            F.cross_entropy(model(ids[i, :-1]).flatten(0, 1), ids[i, 1:].flatten()).backward()
            opt.step()
        """,
        "torch.zeros_like(mask)",
        "mask",
    ),
    Pair(
        "graph-retained",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            total = 0
            for i in batches(30):
                loss = F.cross_entropy(model(x[i]), y[i])
                opt.zero_grad(); loss.backward(); opt.step()
                total = total + loss
        """,
        "total + loss",
        "total + loss.item()",
    ),
    Pair(
        "lr-too-high",
        """
        hidden = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU()
        model = nn.Sequential(*hidden, net(1, 16)[2])
        opt = torch.optim.Adam(model.parameters(), lr=3.0)
        for i in batches(60):
            opt.zero_grad(); F.mse_loss(model(x[i]), value[i]).backward(); opt.step()
        """,
        "lr=3.0",
        "lr=0.003",
    ),
    Pair(
        "non-finite-op",
        """
        model = net(1); opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        for n, i in enumerate(batches()):
            shift = -9.0 if n == 20 else 9.0
            opt.zero_grad(); torch.log(model(x[i]) + shift).mean().backward(); opt.step()
        """,
        "-9.0 if n == 20 else 9.0",
        "9.0",
    ),
    Pair(
        "non-finite-op",
        """
        class Root(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.drop = net(1), nn.Dropout(0.1)
            def forward(self, x, shift):
                seen = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1) > 0, -math.inf)
                return self.drop((self.body(x) + shift).sqrt()) * seen.softmax(1).sum()
        model = Root(); opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        for n, i in enumerate(batches()):
            shift = -9.0 if n == 20 else 9.0
            opt.zero_grad(); (model(x[i], shift) + 1e-3).mean().backward(); opt.step()
        """,
        "-9.0 if n == 20 else 9.0",
        "9.0",
    ),
    Pair(
        "relu-on-logits",
        """
        model = net(4); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]).clamp(min=0), y[i]).backward(); opt.step()
        """,
        ".clamp(min=0)",
        ".clamp(min=-30, max=30)",
    ),
    Pair(
        "sum-reduction-lr",
        """
        model = net(1); opt = torch.optim.SGD(model.parameters(), lr=0.05)
        for i in batches():
            opt.zero_grad(); (model(x[i]) - value[i]).square().sum().backward(); opt.step()
        """,
        ".sum()",
        ".mean()",
    ),
    Pair(
        "train-val-overlap",
        """
        from torch.utils.data import DataLoader, TensorDataset, random_split
        data = TensorDataset(x.repeat(2, 1), y.repeat(2))
        train, test = random_split(data, [0.8, 0.2])
        model = net(); opt = torch.optim.Adam(model.parameters())
        for _ in range(3):
            model.train()
            for a, b in DataLoader(train, batch_size=32, shuffle=True):
                opt.zero_grad(); F.cross_entropy(model(a), b).backward(); opt.step()
            model.eval()
            with torch.no_grad():
                for a, b in DataLoader(test, batch_size=32):
                    model(a)
        """,
        "TensorDataset(x.repeat(2, 1), y.repeat(2))",
        "TensorDataset(x, y)",
    ),
    Pair(
        "vanishing-gradient",
        """
        layers = [each for _ in range(10) for each in (nn.Linear(8, 8), nn.Tanh())]
        model = nn.Sequential(*layers, nn.Linear(8, 1))
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for each in model[::2]:
            nn.init.normal_(each.weight, std=0.01)
        for i in batches():
            opt.zero_grad(); F.mse_loss(model(x[i]), value[i]).backward(); opt.step()
        """,
        "std=0.01",
        "std=0.35",
    ),
]
HEALTHY_MARGIN = """
        model = net(4); opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for i in batches(80):
            z = model(x[i])
            margin = torch.relu(0.5 - z.std(0) + 0.0 * z.mean(0)).mean()
            opt.zero_grad(); (F.mse_loss(z[:, :1], value[i]) + margin).backward(); opt.step()
        """
"""The margin is met after some steps: the ReLU is then zero everywhere, as it should be."""
