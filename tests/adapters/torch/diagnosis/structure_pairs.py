"""Pairs whose bug is in the structure of a larger program: agents, decoders, teachers, gates."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

STRUCTURES = [
    Pair(
        "aliased-target-network",
        """
        class Agent:
            def __init__(self):
                self.policy = net(8)
                self.slow_policy = self.policy
                self.opt = torch.optim.Adam(self.policy.parameters())
            def learn(self, rows):
                with torch.no_grad():
                    wanted = self.slow_policy(rows) + 1
                self.opt.zero_grad()
                F.mse_loss(self.policy(rows), wanted).backward()
                self.opt.step()
                with torch.no_grad():
                    for a, b in zip(self.slow_policy.parameters(), self.policy.parameters()):
                        a.lerp_(b, 0.01)
        agent = Agent()
        for i in batches():
            agent.learn(x[i])
        """,
        "self.slow_policy = self.policy",
        "self.slow_policy = copy.deepcopy(self.policy)",
    ),
    Pair(
        "clip-before-unscale",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for i in batches():
            loss = F.cross_entropy(model(x[i]), y[i])
            opt.zero_grad(); scaler.scale(loss).backward()
            pass
            norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
            nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm)
            scaler.step(opt); scaler.update()
        """,
        "            pass",
        "            scaler.unscale_(opt)",
    ),
    Pair(
        "dropout-in-eval",
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.out = nn.Linear(8, 8), nn.Linear(8, 3)
            def forward(self, rows):
                h = self.inner(rows).view(-1, 2, 4)
                p = 0.3
                return self.out(F.scaled_dot_product_attention(h, h, h, dropout_p=p).flatten(1))
        model = Attention(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            model.eval()
            with torch.no_grad():
                model(x[:8] + 1)
            model.train()
        """,
        "p = 0.3",
        "p = 0.3 if self.training else 0.0",
    ),
    Pair(
        "frozen-bn-drift",
        """
        teacher = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
        teacher.requires_grad_(False)
        teacher.train()
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(70):
            soft = teacher(x[i]).softmax(1)
            opt.zero_grad(); F.cross_entropy(model(x[i]), soft).backward(); opt.step()
        """,
        "teacher.train()",
        "teacher.eval()",
    ),
    Pair(
        "future-leak",
        """
        class Wave(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb, self.out = nn.Embedding(20, 16), nn.Conv1d(16, 20, 1)
                self.conv = nn.Conv1d(16, 16, 3)
            def forward(self, ids):
                h = self.emb(ids).transpose(1, 2)
                return self.out(torch.relu(self.conv(F.pad(h, (1, 1)))))
        model = Wave(); opt = torch.optim.Adam(model.parameters())
        ids = torch.randint(0, 20, (256, 13))
        for i in batches():
            opt.zero_grad()
            F.cross_entropy(model(ids[i, :-1]), ids[i, 1:]).backward()
            opt.step()
        """,
        "(1, 1)",
        "(2, 0)",
    ),
    Pair(
        "padding-not-masked",
        """
        class Translator(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = (nn.Embedding(20, 16, padding_idx=0) for _ in range(2))
                self.encoder, self.decoder = (nn.GRU(16, 16, batch_first=True) for _ in range(2))
                self.out = nn.Linear(16, 20)
            def forward(self, source, target):
                _, state = self.encoder(self.a(source))
                return self.out(self.decoder(self.b(target), state)[0])
        model = Translator(); opt = torch.optim.Adam(model.parameters())
        for _ in range(20):
            source = torch.randint(1, 20, (32, 6))
            lengths = torch.randint(3, 11, (32, 1))
            target = torch.randint(1, 20, (32, 11)) * (torch.arange(11) < lengths)
            guess = model(source, target[:, :-1]).flatten(0, 1)
            loss = F.cross_entropy(guess, target[:, 1:].flatten())
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        ".flatten())",
        ".flatten(), ignore_index=0)",
    ),
    Pair(
        "sampler-same-order",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(5):
            order = torch.randperm(256, generator=torch.Generator().manual_seed(1))
            for i in order.split(64):
                opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "manual_seed(1)",
        "manual_seed(epoch)",
    ),
    Pair(
        "softmax-wrong-dim",
        """
        class Mixture(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate = nn.Linear(8, 4)
                self.experts = nn.ModuleList(nn.Linear(8, 3) for _ in range(4))
            def forward(self, rows):
                share = self.gate(rows).softmax(dim=0)
                return sum(share[:, n, None] * one(rows) for n, one in enumerate(self.experts))
        model = Mixture(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "dim=0",
        "dim=1",
    ),
    Pair(
        "softmax-wrong-dim",
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.q, self.k, self.v = (nn.Linear(2, 6) for _ in range(3))
                self.out = nn.Linear(24, 3)
            def forward(self, rows):
                h = rows.view(-1, 4, 2)
                weights = torch.softmax(self.q(h) @ self.k(h).transpose(1, 2), dim=1)
                return self.out((weights @ self.v(h)).flatten(1))
        model = Attention(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "dim=1)",
        "dim=2)",
    ),
    Pair(
        "view-instead-of-permute",
        """
        class Spotter(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.rnn = nn.Conv1d(2, 6, 1), nn.GRU(6, 8, batch_first=True)
                self.out = nn.Linear(8, 3)
            def forward(self, rows):
                h = self.conv(rows.view(-1, 2, 4))
                return self.out(self.rnn(h.view(-1, 4, 6))[0].mean(1))
        model = Spotter(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "h.view(-1, 4, 6)",
        "h.permute(0, 2, 1)",
    ),
]
