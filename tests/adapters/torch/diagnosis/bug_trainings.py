"""Small trainings with a bug, by name: the kind of the bug, and the code."""

from __future__ import annotations

BUGS: dict[str, tuple[str, str]] = {
    "eval before a loop in a function": (
        "left-in-eval",
        """
        model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 2))
        model.eval()
        def train():
            fit(model, torch.optim.Adam(model.parameters()))
        train()
        """,
    ),
    "eval after each epoch": (
        "left-in-eval",
        """
        model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 2))
        opt = torch.optim.Adam(model.parameters())
        for epoch in range(4):
            for i in batches(10):
                opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            model.eval()
        """,
    ),
    "cleared after backward": (
        "zero-grad-before-step",
        """
        model = net(); opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
        for i in batches():
            loss = F.cross_entropy(model(x[i]), y[i])
            loss.backward()
            model.zero_grad()
            opt.step()
        """,
    ),
    "never cleared, in a trainer": (
        "missing-zero-grad",
        """
        class Trainer:
            def __init__(self, model):
                self.model = model
                self.opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
            def training_step(self, i):
                return F.mse_loss(self.model(x[i]), value[i])
            def fit(self):
                for i in batches():
                    self.training_step(i).backward()
                    self.opt.step()
        Trainer(net(1)).fit()
        """,
    ),
    "head replaced after the optimizer": (
        "stale-optimizer-params",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        model[2] = nn.Linear(16, 2)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    ),
    "layers in a plain list": (
        "unregistered-submodules",
        """
        class Plain(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(8, 8) for _ in range(2)]
                self.out = nn.Linear(8, 2)
            def forward(self, x):
                for layer in self.layers:
                    x = torch.tanh(layer(x))
                return self.out(x)
        model = Plain(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    ),
    "layer never called": (
        "unused-parameters",
        """
        class Forgetful(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.extra, self.b = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 2)
            def forward(self, x):
                return self.b(torch.relu(self.a(x)))
        model = Forgetful(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    ),
    "sigmoid before the logits loss": (
        "double-softmax",
        """
        model = nn.Sequential(net(1), nn.Sigmoid()); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad()
            F.binary_cross_entropy_with_logits(model(x[i])[:, 0], y[i].float()).backward()
            opt.step()
        """,
    ),
    "relu on logits": (
        "relu-on-logits",
        """
        model = nn.Sequential(net(4), nn.ReLU()); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); nn.CrossEntropyLoss()(model(x[i]), y[i]).backward(); opt.step()
        """,
    ),
    "pairs compared": (
        "loss-broadcast",
        """
        model = net(1); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); (model(x[i]) - value[i, 0]).pow(2).mean().backward(); opt.step()
        """,
    ),
    "equal rows": (
        "constant-init",
        """
        model = net()
        for p in model.parameters():
            nn.init.constant_(p, 0.1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    ),
    "rate of 1e-9": (
        "lr-too-low",
        """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=1e-9)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    ),
    "functional dropout": (
        "dropout-in-eval",
        """
        class Dropping(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 2)
            def forward(self, x):
                return self.b(F.dropout(torch.relu(self.a(x)), 0.3))
        model = Dropping(); opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        model.eval()
        with torch.no_grad():
            model(x)
        """,
    ),
    "best state not copied": (
        "aliased-best-state",
        """
        model = net(); opt = torch.optim.Adam(model.parameters()); best = None
        for n, i in enumerate(batches()):
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            if n == 10:
                best = model.state_dict()
        model.load_state_dict(best)
        """,
    ),
    "losses kept": (
        "graph-retained",
        """
        model = net(); opt = torch.optim.Adam(model.parameters()); total = 0
        for i in batches():
            opt.zero_grad(); loss = F.cross_entropy(model(x[i]), y[i]); loss.backward(); opt.step()
            total = total + loss
        """,
    ),
    "tie replaced": (
        "broken-weight-tie",
        """
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb, self.out = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
                self.out.weight = self.emb.weight
        model = Tied()
        model.emb.weight = nn.Parameter(torch.randn(12, 8))
        opt = torch.optim.Adam(model.parameters())
        for i in batches():
            opt.zero_grad()
            F.cross_entropy(model.out(model.emb(y[i])), y[i]).backward(); opt.step()
        """,
    ),
    "initialised in every epoch": (
        "repeated-init",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            nn.init.xavier_uniform_(model[0].weight)
            for i in batches(8):
                opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
    ),
    "clipped while scaled": (
        "clip-before-unscale",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for i in batches():
            opt.zero_grad(); scaler.scale(F.cross_entropy(model(x[i]), y[i])).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt); scaler.update()
        """,
    ),
    "all targets ignored": (
        "empty-reduction",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for n, i in enumerate(batches()):
            opt.zero_grad()
            target = torch.full_like(y[i], -100) if n == 9 else y[i]
            F.cross_entropy(model(x[i]), target).backward(); opt.step()
        """,
    ),
    "logarithm behind where": (
        "unsafe-where-branch",
        """
        model = net(1); opt = torch.optim.SGD(model.parameters(), lr=0.01)
        for i in batches():
            d = model(x[i]) * y[i, None]
            opt.zero_grad(); torch.where(d != 0, d.abs().log(), d).mean().backward(); opt.step()
        """,
    ),
    "one sample": (
        "std-of-one-sample",
        """
        model = net(1); opt = torch.optim.SGD(model.parameters(), lr=0.01)
        for i in [*batches(6), torch.tensor([4])]:
            given = (x[i] - x[i].mean(0)) / (x[i].std(0) + 1e-6)
            opt.zero_grad(); F.mse_loss(model(given), value[i]).backward(); opt.step()
        """,
    ),
    "heads split by view": (
        "view-instead-of-permute",
        """
        class Heads(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 2)
            def forward(self, x):
                b, t, d = x.shape
                q, k, v = (each.reshape(b, 2, t, d // 2) for each in self.qkv(x).chunk(3, -1))
                h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
                return self.out(h.mean(1))
        model = Heads(); opt = torch.optim.Adam(model.parameters()); seq = torch.randn(256, 5, 8)
        for i in batches():
            opt.zero_grad(); F.cross_entropy(model(seq[i]), y[i]).backward(); opt.step()
        """,
    ),
    "padding counted": (
        "padding-not-masked",
        """
        class LM(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb = nn.Embedding(20, 8, padding_idx=0)
                self.rnn, self.out = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)
            def forward(self, ids):
                return self.out(self.rnn(self.emb(ids))[0])
        model = LM(); opt = torch.optim.Adam(model.parameters())
        ids = torch.randint(1, 20, (256, 11))
        ids[torch.arange(11)[None] >= torch.randint(3, 12, (256, 1))] = 0
        for i in batches():
            opt.zero_grad()
            F.cross_entropy(model(ids[i, :-1]).flatten(0, 1), ids[i, 1:].flatten()).backward()
            opt.step()
        """,
    ),
}
