"""Pairs about parameters, and about states that are kept, loaded and saved."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

PARAMETERS = [
    Pair(
        "dead-relu",
        """
        model = net()
        nn.init.constant_(model[0].bias, -50.0)
        fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
        """,
        "-50.0",
        "0.5",
    ),
    Pair(
        "detached-graph",
        """
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder, self.head = nn.Linear(8, 16), nn.Linear(16, 2)
            def forward(self, x):
                h = torch.relu(self.encoder(x)).detach()
                return self.head(h)
        model = Two(); fit(model, torch.optim.Adam(model.parameters(), lr=1e-2))
        """,
        ".detach()",
        "",
    ),
    Pair(
        "frozen-bn-drift",
        """
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
        for p in model[:2].parameters():
            p.requires_grad_(False)
        model.train()
        fit(model, torch.optim.SGD(model[3].parameters(), lr=0.1))
        """,
        "model.train()",
        "model.train(); model[1].eval()",
    ),
    Pair(
        "frozen-parameters",
        """
        model = net()
        for p in model.parameters():
            p.requires_grad_(False)
        head = nn.Linear(2, 2); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(head(model(x[i])), y[i]).backward(); opt.step()
        """,
        "torch.optim.SGD(model.parameters()",
        "torch.optim.SGD([*model.parameters(), *head.parameters()]",
    ),
    Pair(
        "frozen-stage-trains",
        """
        class Staged(nn.Module):
            def __init__(self, keep):
                super().__init__()
                self.keep, self.stem, self.head = keep, nn.Linear(8, 16), nn.Linear(16, 2)
            def train(self, mode=True):
                super().train(mode)
                if self.keep:
                    self.stem.requires_grad_(False)
                return self
            def forward(self, x):
                return self.head(torch.relu(self.stem(x)))
        model = Staged(keep=True); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        fit(model, opt)
        """,
        "keep=True",
        "keep=False",
    ),
    Pair(
        "optimizer-skips-noncontiguous",
        """
        class Flat(torch.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, {"lr": lr})
            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    flat = p.contiguous().view(-1)
                    flat -= 0.1 * p.grad.reshape(-1)
        model = net(); model[0].weight = nn.Parameter(torch.randn(8, 16).t())
        fit(model, Flat(model.parameters(), lr=0.1))
        """,
        "torch.randn(8, 16).t()",
        "torch.randn(8, 16).t().contiguous()",
    ),
    Pair(
        "spectral-norm-eval-first",
        """
        critic = nn.Sequential(nn.Linear(8, 64), nn.utils.spectral_norm(nn.Linear(64, 1)))
        state = copy.deepcopy(critic).train(); state(x)
        critic.eval(); policy = nn.Linear(8, 8)
        opt = torch.optim.SGD(policy.parameters(), lr=1e-2)
        for i in batches(10):
            opt.zero_grad(); critic(policy(x[i])).mean().backward(); opt.step()
        """,
        "critic.eval();",
        "critic.load_state_dict(state.state_dict()); critic.eval();",
    ),
    Pair(
        "zero-init",
        """
        model = net()
        for p in model.parameters():
            nn.init.zeros_(p)
        fit(model, torch.optim.SGD(model.parameters(), lr=0.1))
        """,
        "model.parameters():",
        "[model[0].bias, model[2].bias]:",
    ),
    Pair(
        "aliased-target-network",
        """
        q = net(); target = q; opt = torch.optim.Adam(q.parameters())
        for n, i in enumerate(batches()):
            with torch.no_grad():
                goal = target(x[i]).max(1).values
            opt.zero_grad(); F.smooth_l1_loss(q(x[i])[:, 0], goal).backward(); opt.step()
            if n % 10 == 0:
                target.load_state_dict(q.state_dict())
        """,
        "target = q;",
        "target = copy.deepcopy(q);",
    ),
    Pair(
        "hook-ignored-by-compiled-code",
        """
        torch._dynamo.reset()
        model = net(); fast = torch.compile(model, backend="eager")
        hook = lambda *given: None
        fast(x[:32])
        model[0].register_forward_hook(hook)
        fit(fast, torch.optim.SGD(model.parameters(), lr=0.1), 6)
        torch._dynamo.reset()
        """,
        "        fast(x[:32])\n        model[0].register_forward_hook(hook)\n",
        "        model[0].register_forward_hook(hook)\n        fast(x[:32])\n",
    ),
    Pair(
        "resume-without-optimizer-state",
        """
        import io
        model = net(); opt = torch.optim.Adam(model.parameters()); fit(model, opt, 5)
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": 1}, file)
        file.seek(0); saved = torch.load(file)
        model = net(); opt = torch.optim.Adam(model.parameters())
        model.load_state_dict(saved["model"])
        fit(model, opt, 10)
        """,
        'model.load_state_dict(saved["model"])',
        'model.load_state_dict(saved["model"]); opt.load_state_dict(saved["opt"])',
    ),
    Pair(
        "weight-not-in-optimizer",
        """
        class Contrast(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(()))
            def forward(self, out, target):
                return F.cross_entropy(self.scale * out, target)
        model, criterion = net(), Contrast()
        weights = [*model.parameters()]
        opt = torch.optim.Adam(weights, lr=1e-2)
        for i in batches():
            opt.zero_grad(); criterion(model(x[i]), y[i]).backward(); opt.step()
        """,
        "[*model.parameters()]",
        "[*model.parameters(), *criterion.parameters()]",
    ),
]
