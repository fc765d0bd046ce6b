"""Small healthy trainings that look suspicious."""

from __future__ import annotations

HEALTHY: dict[str, str] = {
    "critic in eval mode that is not trained": """
        critic = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 1)).eval()
        policy = nn.Linear(8, 8); opt = torch.optim.Adam(policy.parameters())
        for i in batches():
            opt.zero_grad(); critic(policy(x[i])).mean().backward(); opt.step()
        """,
    "scaled loss beyond the range": """
        net = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
        for step in range(12):
            optimizer.zero_grad()
            scaler.scale(net(torch.randn(16, 4)).pow(2).mean() * 1e3).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    "warm-up from zero": """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, s / 30))
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step(); warm.step()
        """,
    "frozen on purpose": """
        model = net()
        for p in model[0].parameters():
            p.requires_grad_(False)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    "zero-init residual": """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
                nn.init.zeros_(self.b.weight); nn.init.zeros_(self.b.bias)
            def forward(self, x):
                return x + self.b(torch.relu(self.a(x)))
        model = nn.Sequential(Block(), Block(), nn.Linear(8, 2))
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    "scaler skips at the start": """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 40)
        for i in batches():
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x[i]), y[i])
            scaler.scale(loss).backward(); scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt); scaler.update(); sched.step()
        """,
    "idle expert": """
        class Experts(nn.Module):
            def __init__(self):
                super().__init__()
                self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
                self.out = nn.Linear(8, 2)
            def forward(self, x):
                return self.out(torch.relu(self.experts[1](x)))
        model = Experts(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    "gan": """
        g, d = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)), net(1)
        og = torch.optim.Adam(g.parameters(), lr=1e-3)
        od = torch.optim.Adam(d.parameters(), lr=1e-3)
        for i in batches():
            fake = g(torch.randn(32, 4))
            od.zero_grad()
            (F.softplus(-d(x[i])).mean() + F.softplus(d(fake.detach())).mean()).backward()
            od.step()
            og.zero_grad(); F.softplus(-d(fake)).mean().backward(); og.step()
        """,
    "converged": """
        model = nn.Linear(8, 1); opt = torch.optim.SGD(model.parameters(), lr=0.2)
        for _ in range(300):
            opt.zero_grad(); F.mse_loss(model(x), value).backward(); opt.step()
        """,
    "validation and best state": """
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2),
                              nn.Linear(16, 2))
        opt = torch.optim.AdamW(model.parameters(), lr=1e-2); best, low = None, 9e9
        for epoch in range(4):
            model.train()
            for i in batches(8):
                i = i % 200
                opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            model.eval()
            with torch.no_grad():
                loss = F.cross_entropy(model(x[200:]), y[200:]).item()
                train_loss = F.cross_entropy(model(x[:200]), y[:200]).item()
            if loss < low:
                best, low = copy.deepcopy(model.state_dict()), loss
        model.load_state_dict(best)
        """,
    "target network": """
        q = net(); target = copy.deepcopy(q); opt = torch.optim.Adam(q.parameters())
        for n, i in enumerate(batches()):
            with torch.no_grad():
                goal = target(x[i]).max(1).values
            opt.zero_grad(); F.smooth_l1_loss(q(x[i])[:, 0], goal).backward(); opt.step()
            if n % 10 == 0:
                target.load_state_dict(q.state_dict())
        """,
    "lazy modules, some of which never run": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm = nn.LazyLinear(16), nn.LazyBatchNorm1d()
                self.idle, self.idle_norm = nn.LazyLinear(16), nn.LazyBatchNorm1d()
                self.last = nn.Linear(16, 2)
            def forward(self, x):
                return self.last(F.relu(self.norm(self.first(x))))
        model, target = Net(), Net()
        with torch.no_grad():
            model(x), target(x)
        has_values = lambda each: not nn.parameter.is_lazy(each)
        opt = torch.optim.Adam(filter(has_values, model.parameters()), lr=3e-3)
        fit(model, opt)
        target.load_state_dict(model.state_dict(), strict=False)
        fit(model, opt)
        """,
    "gradients set to None": """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches():
            F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            for p in model.parameters():
                p.grad = None
        """,
    "summed loss with a small rate": """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        for i in batches():
            opt.zero_grad()
            F.cross_entropy(model(x[i]), y[i], reduction="sum").backward(); opt.step()
        """,
    "sequence autoencoder": """
        class Auto(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb, self.enc = nn.Embedding(20, 8), nn.GRU(8, 16, batch_first=True)
                self.out = nn.Linear(16, 6 * 20)
            def forward(self, ids):
                return self.out(self.enc(self.emb(ids))[1][0]).view(-1, 6, 20)
        model = Auto(); opt = torch.optim.Adam(model.parameters())
        ids = torch.randint(0, 20, (256, 6))
        for i in batches():
            opt.zero_grad()
            F.cross_entropy(model(ids[i]).flatten(0, 1), ids[i].flatten()).backward(); opt.step()
        """,
}

HEALTHY_FREEZING = [
    """
        class Named(nn.Module):
            def __init__(self):
                super().__init__()
                self.frozen_lake, self.freeze_after = True, 1000
                self.body = net()
            def forward(self, x):
                return self.body(x)
        model = Named(); fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
        """,
    """
        class Staged(nn.Module):
            def __init__(self):
                super().__init__()
                self.frozen_stages, self.stem, self.head = 1, nn.Linear(8, 16), nn.Linear(16, 2)
            def train(self, mode=True):
                super().train(mode)
                self.stem.requires_grad_(False)
                return self
            def forward(self, x):
                return self.head(torch.relu(self.stem(x)))
        model = Staged().train(); fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
        """,
]
_CRITIC = """
        def critic_of(norm):
            return nn.Sequential(nn.Linear(8, 64), norm(nn.Linear(64, 64)), nn.Linear(64, 1))
        critic = critic_of(NORM); policy = nn.Linear(8, 8); MORE
        opt = torch.optim.SGD(policy.parameters(), lr=1e-2); critic.eval()
        for i in batches(10):
            opt.zero_grad(); critic(policy(x[i])).mean().backward(); opt.step()
        """
HEALTHY_NORMS = [
    _CRITIC.replace("NORM", "nn.utils.parametrizations.spectral_norm").replace("MORE", ""),
    _CRITIC.replace("NORM", "nn.utils.spectral_norm").replace(
        "MORE", "critic.requires_grad_(False); critic(x); critic = copy.deepcopy(critic)"
    ),
]
