"""How each training of `bug_trainings` becomes healthy."""

from __future__ import annotations

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
