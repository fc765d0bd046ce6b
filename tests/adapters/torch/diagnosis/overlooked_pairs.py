"""Pairs of forms that were overlooked: steps outside the loop, views of a state, shared memory."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

OVERLOOKED = [
    Pair(
        "zero-grad-before-step",
        """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for epoch in range(6):
            for i in batches(8):
                opt.zero_grad()
                F.cross_entropy(model(x[i]), y[i]).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        """,
        "    opt.step()",
        "        opt.step()",
    ),
    Pair(
        "aliased-best-state",
        """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-2); best = {}
        for n, i in enumerate(batches()):
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            if n == 20:
                best = {k: v.detach() for k, v in model.state_dict().items()}
        model.load_state_dict(best)
        """,
        "v.detach()",
        "v.detach().clone()",
    ),
    Pair(
        "aliased-target-network",
        """
        class Twins(nn.Module):
            def __init__(self):
                super().__init__()
                self.online, self.predictor = net(8), nn.Linear(8, 8)
                self.target = copy.deepcopy(self.online).requires_grad_(False)
            def sync(self):
                for mine, theirs in zip(self.target.parameters(), self.online.parameters()):
                    mine.data = theirs.data
            def forward(self, x):
                with torch.no_grad():
                    wanted = self.target(x)
                given = self.predictor(self.online(x + 0.1 * torch.randn_like(x)))
                return 1 - F.cosine_similarity(given, wanted).mean()
        model = Twins(); model.sync()
        opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        for i in batches():
            opt.zero_grad(); model(x[i]).backward(); opt.step(); model.sync()
        """,
        "mine.data = theirs.data",
        "mine.data.lerp_(theirs.data, 0.1)",
    ),
    Pair(
        "graph-retained",
        """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-3); terms = []
        for i in batches():
            fit_term = F.cross_entropy(model(x[i]), y[i])
            size_term = sum(p.pow(2).sum() for p in model.parameters())
            opt.zero_grad(); (fit_term + 1e-4 * size_term).backward(); opt.step()
            terms.append(fit_term)
        """,
        "terms.append(fit_term)",
        "terms.append(fit_term.item())",
    ),
    Pair(
        "dropout-in-eval",
        """
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        held = torch.randn(64, 8); wanted = (held[:, 0] > 0).long()
        for epoch in range(4):
            model.train(); fit(model, opt, 5)
            model.eval
            with torch.no_grad():
                F.cross_entropy(model(held), wanted)
        """,
        "model.eval\n",
        "model.eval()\n",
    ),
    Pair(
        "nll-of-probabilities",
        """
        model = nn.Sequential(net(), nn.Softmax(1)); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.nll_loss(model(x[i]), y[i]).backward(); opt.step()
        """,
        "nn.Softmax(1)",
        "nn.LogSoftmax(1)",
    ),
    Pair(
        "normalize-wrong-dim",
        """
        model = net(6); opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for i in batches():
            one, two = (F.normalize(model(x[i] + 0.1 * torch.randn(32, 8)), dim=0) for _ in "ab")
            opt.zero_grad(); F.cross_entropy(one @ two.T / 0.5, torch.arange(32)).backward()
            opt.step()
        """,
        "dim=0",
        "dim=1",
    ),
    Pair(
        "zero-grad-before-step",
        """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        def report(norms):
            for p in model.parameters():
                norms.append(p.grad.norm().item())
                p.grad.zero_()
        for i in batches():
            F.cross_entropy(model(x[i]), y[i]).backward()
            report([]); opt.step(); opt.zero_grad()
        """,
        "p.grad.zero_()",
        "p.grad.clone().zero_()",
    ),
    Pair(
        "aliased-best-state",
        """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for n, i in enumerate(batches()):
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            if n == 20:
                best = [p.data for p in model.parameters()]
        with torch.no_grad():
            for p, b in zip(model.parameters(), best):
                p.copy_(b)
        """,
        "[p.data for",
        "[p.data.clone() for",
    ),
    Pair(
        "softmax-wrong-dim",
        """
        class Pooled(nn.Module):
            def __init__(self):
                super().__init__()
                self.states, self.score = nn.Linear(2, 6), nn.Linear(6, 1)
                self.out = nn.Linear(6, 2)
            def forward(self, x):
                h = self.states(x.unflatten(1, (4, 2))).tanh()
                return self.out((F.softmax(self.score(h), dim=0) * h).sum(1))
        model = Pooled(); fit(model, torch.optim.Adam(model.parameters(), lr=1e-2))
        """,
        "dim=0",
        "dim=1",
    ),
    Pair(
        "padding-not-masked",
        """
        long = torch.randint(3, 9, (len(x),)); kept = torch.arange(9) < long[:, None]
        track = torch.randn(len(x), 9, 8) * kept[..., None]
        sums = (track.cumsum(1)[..., 0] + 1) * kept; model = net(1)
        opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for i in batches():
            wrong = F.mse_loss(model(track[i])[..., 0], sums[i], reduction="none")
            opt.zero_grad(); wrong.mean().backward(); opt.step()
        """,
        "wrong.mean()",
        "wrong[kept[i]].mean()",
    ),
    Pair(
        "non-finite-op",
        """
        model = net(4); opt = torch.optim.Adam(model.parameters())
        legal = torch.tensor([0.0, -math.inf, 0.0, 0.0])
        for n, i in enumerate(batches()):
            loss = F.cross_entropy(model(x[i]) + legal, y[i] if n > 5 else 2 * y[i])
            opt.zero_grad(); loss.backward(); opt.step()
        """,
        "y[i] if n > 5 else 2 * y[i]",
        "2 * y[i]",
    ),
    Pair(
        "non-finite-op",
        """
        model = net(1); opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        for n, i in enumerate(batches()):
            rate = model(x[i]) * (500 if n > 5 else 1)
            opt.zero_grad(); F.poisson_nll_loss(rate, value[i].abs()).backward(); opt.step()
        """,
        "500 if n > 5 else 1",
        "2 if n > 5 else 1",
    ),
    Pair(
        "repeated-init",
        """
        before, model = net(), net()
        fit(before, torch.optim.Adam(before.parameters(), lr=1e-2))
        model.load_state_dict(before.state_dict())
        nn.init.xavier_uniform_(model[0].weight)
        fit(model, torch.optim.Adam(model.parameters(), lr=1e-2))
        """,
        "model[0].weight",
        "model[2].weight",
    ),
]
HEALTHY_FORMS = {
    "correlations of features along the batch": """
        model = net(6); opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for i in batches():
            one, two = (F.normalize(model(x[i] + 0.1 * torch.randn(32, 8)), dim=0) for _ in "ab")
            opt.zero_grad(); (one.T @ two - torch.eye(6)).pow(2).sum().backward(); opt.step()
        """,
    "gradients of single samples, clipped and added": """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(10, 6):
            sums = [torch.zeros_like(p) for p in model.parameters()]
            for n in i:
                opt.zero_grad(); F.cross_entropy(model(x[n : n + 1]), y[n : n + 1]).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for s, p in zip(sums, model.parameters()):
                    s += p.grad
            for s, p in zip(sums, model.parameters()):
                p.grad = s / len(i)
            opt.step()
        """,
    "the critic clears what the generator's loss left": """
        model, critic = net(2), nn.Linear(2, 1); opt = torch.optim.Adam(model.parameters())
        other = torch.optim.Adam(critic.parameters())
        for i in batches():
            for part in i.split(8):
                other.zero_grad(); critic(model(x[part]).detach()).mean().backward(); other.step()
                opt.zero_grad(); (-critic(model(x[part])).mean()).backward(); opt.step()
        """,
    "Monte Carlo dropout": """
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
        opt = torch.optim.Adam(model.parameters(), lr=1e-3); held = torch.randn(64, 8)
        for epoch in range(4):
            fit(model, opt, 5)
            with torch.no_grad():
                mean = torch.stack([model(held).softmax(1) for _ in range(8)]).mean(0)
                F.nll_loss(mean.log(), (held[:, 0] > 0).long())
        """,
}
