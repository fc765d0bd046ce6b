"""Small trainings, healthy and with bugs, and how a test diagnoses them in its own process."""

from __future__ import annotations

import textwrap
from pathlib import Path

from sonde.adapters.torch.diagnosis.collector import Collector
from sonde.core.finding import Finding
from sonde.diagnose.catalogue import diagnose

HEAD = """\
import copy, math
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(3)
x = torch.randn(256, 8)
y = (x[:, 0] > 0).long()
value = x[:, :1] * 2 - x[:, 1:2]
def net(out=2, width=16):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, out))
def batches(n=40, size=32):
    g = torch.Generator().manual_seed(1)
    for _ in range(n):
        yield torch.randint(0, 256, (size,), generator=g)
def fit(model, opt, n=40):
    for i in batches(n):
        opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
"""


def run(code: str, folder: Path) -> tuple[list[Finding], dict[str, object]]:
    """Run ``HEAD`` and ``code`` as a file of ``folder`` under a collector, and judge it."""
    file = folder / "train.py"
    text = HEAD + textwrap.dedent(code)
    file.write_text(text)
    variables: dict[str, object] = {"__name__": "__main__"}
    collector = Collector()
    with collector.attached():
        exec(compile(text, str(file), "exec"), variables)
    evidence = collector.finish()
    assert collector.recorder.is_on, "the collection of evidence failed"
    return diagnose(evidence), variables


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

HEALTHY: dict[str, str] = {
    "critic in eval mode that is not trained": """
        critic = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 1)).eval()
        policy = nn.Linear(8, 8); opt = torch.optim.Adam(policy.parameters())
        for i in batches():
            opt.zero_grad(); critic(policy(x[i])).mean().backward(); opt.step()
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

FIXES: dict[str, tuple[str, str]] = {
    "eval before a loop in a function": ("model.eval()", "model.train()"),
    "eval after each epoch": ("model.eval()", "model.eval(); model.train()"),
    "cleared after backward": (
        "model.zero_grad()\n            opt.step()",
        "opt.step(); model.zero_grad()",
    ),
    "never cleared, in a trainer": ("self.opt.step()", "self.opt.step(); self.opt.zero_grad()"),
    "head replaced after the optimizer": (
        "model[2] = nn.Linear(16, 2)",
        "model[2] = nn.Linear(16, 2); opt = torch.optim.SGD(model.parameters(), lr=0.1)",
    ),
    "layers in a plain list": (
        "[nn.Linear(8, 8) for _ in range(2)]",
        "nn.ModuleList(nn.Linear(8, 8) for _ in range(2))",
    ),
    "layer never called": ("self.a(x)", "self.extra(self.a(x))"),
    "sigmoid before the logits loss": (", nn.Sigmoid()", ""),
    "relu on logits": ("nn.ReLU())", "nn.Linear(4, 4))"),
    "pairs compared": ("value[i, 0]", "value[i]"),
    "equal rows": ("nn.init.constant_(p, 0.1)", "nn.init.normal_(p, 0.0, 0.1)"),
    "rate of 1e-9": ("lr=1e-9", "lr=1e-3"),
    "functional dropout": ("0.3))", "0.3, self.training))"),
    "best state not copied": ("model.state_dict()", "copy.deepcopy(model.state_dict())"),
    "losses kept": ("total + loss", "total + loss.item()"),
    "tie replaced": (
        "nn.Parameter(torch.randn(12, 8))",
        "nn.Parameter(torch.randn(12, 8)); model.out.weight = model.emb.weight",
    ),
    "initialised in every epoch": (
        "nn.init.xavier_uniform_(model[0].weight)",
        "epoch or nn.init.xavier_uniform_(model[0].weight)",
    ),
    "clipped while scaled": (
        "nn.utils.clip_grad_norm_",
        "scaler.unscale_(opt); nn.utils.clip_grad_norm_",
    ),
    "all targets ignored": ("torch.full_like(y[i], -100) if n == 9 else y[i]", "y[i]"),
    "logarithm behind where": ("d.abs().log()", "torch.where(d != 0, d, 1.0).abs().log()"),
    "one sample": ("x[i].std(0)", "x[i].std(0, correction=0)"),
    "heads split by view": (
        "each.reshape(b, 2, t, d // 2)",
        "each.reshape(b, t, 2, d // 2).transpose(1, 2)",
    ),
    "padding counted": ("ids[i, 1:].flatten())", "ids[i, 1:].flatten(), ignore_index=0)"),
}
"""What to replace in a training with a bug, by what, to make it healthy."""

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
