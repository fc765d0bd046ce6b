"""Trainings that must be the same with and without a diagnosis: ``losses``, ``state``, ``counts``.

Each draws random numbers, keeps buffers or counts its calls, so that a probe that does not put
everything back shows.
"""

from __future__ import annotations

_LOOP = """
        losses = []; counts = 0
        for n, i in enumerate(batches(30)):
            opt.zero_grad()
            loss = LOSS
            loss.backward(); opt.step(); losses.append(loss.item())
        state = [*model.state_dict().values(), torch.rand(4)]
"""


def _trained(made: str, loss: str = "F.cross_entropy(model(x[i]), y[i])") -> str:
    return f"        {made}{_LOOP.replace('LOSS', loss)}"


_ADAM = "opt = torch.optim.AdamW(model.parameters(), lr=1e-2)"
TRAINED_TWICE = {
    "calls, noise and its own train()": """
        class Noisy(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.norm, self.b = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 2)
                self.drop, self.calls, self.seen = nn.Dropout(0.3), 0, []
            def train(self, mode=True):
                torch.rand(1)
                self.a.requires_grad_(False)
                return super().train(mode)
            def forward(self, x):
                self.calls += 1
                self.seen.append(self.calls)
                return self.b(self.drop(torch.relu(self.norm(self.a(x)))))
        model = Noisy(); opt = torch.optim.AdamW(model.parameters(), lr=1e-2); losses = []
        for i in batches(30):
            opt.zero_grad()
            loss = F.cross_entropy(model(x[i]) + 0.01 * torch.rand(32, 2), y[i])
            loss.backward(); opt.step(); losses.append(loss.item())
        state = [*model.state_dict().values(), torch.rand(4)]
        counts = model.calls, model.seen
        """,
    "convolutions with batch statistics": _trained(
        "model = nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), "
        f"nn.Dropout(0.2), nn.Flatten(), nn.Linear(24, 2)); {_ADAM}"
    ),
    "a recurrent network": _trained(
        f"model = nn.LSTM(8, 2, num_layers=2, dropout=0.3, batch_first=True); {_ADAM}",
        "F.cross_entropy(model(x[i][:, None])[0][:, 0] * 5, y[i])",
    ),
    "a transformer": _trained(
        "model = nn.TransformerEncoder("
        "nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True), 1); "
        f"{_ADAM}",
        "F.cross_entropy(model(x[i][:, None])[:, 0, :2], y[i])",
    ),
    "a loss that becomes NaN": _trained(
        "model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), "
        f"nn.Linear(8, 1)); {_ADAM}",
        "(model(x[i]) + (9.0 if n != 15 else -9.0)).log().mean()",
    ),
    "a closure": """
        model = nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.2), nn.Linear(4, 2))
        opt = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3); losses = []; counts = 0
        def closure():
            opt.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward()
            losses.append(loss.item())
            return loss
        for _ in range(12):
            opt.step(closure)
        state = [*model.state_dict().values(), torch.rand(4)]
        """,
}
