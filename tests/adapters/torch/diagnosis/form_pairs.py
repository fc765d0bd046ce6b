"""Pairs of bugs in other forms: in-place compilation, counters of modules that never run, orders of
Python lists, evaluation in inference mode, weights that the program itself copies, and gradients
that it removes by hand."""

from __future__ import annotations

from tests.adapters.torch.diagnosis.pairs import Pair

FORMS = [
    Pair(
        "hook-ignored-by-compiled-code",
        """
        torch._dynamo.reset()
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = net()
            def forward(self, rows):
                return self.body(rows)
        model = Outer(); model.compile(backend="eager")
        hook = lambda *given: None
        model(x[:32])
        model.body[0].register_forward_pre_hook(hook)
        fit(model, torch.optim.SGD(model.parameters(), lr=0.1), 6)
        torch._dynamo.reset()
        """,
        "        model(x[:32])\n        model.body[0].register_forward_pre_hook(hook)\n",
        "        model.body[0].register_forward_pre_hook(hook)\n        model(x[:32])\n",
    ),
    Pair(
        "low-precision-counter",
        """
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.tensor(200.0))
        counting = Counting(); counting.seen = counting.seen.to(torch.bfloat16)
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in batches(120):
            opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            counting.seen += 1
        """,
        "torch.bfloat16",
        "torch.float32",
    ),
    Pair(
        "sampler-same-order",
        """
        import random
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(5):
            order = list(range(256))
            random.Random(1).shuffle(order)
            for at in range(0, 256, 64):
                i = order[at : at + 64]
                opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
        """,
        "Random(1)",
        "Random(epoch)",
    ),
    Pair(
        "train-val-overlap",
        """
        model = net(); opt = torch.optim.Adam(model.parameters())
        for _ in range(3):
            model.train()
            for i in torch.randperm(200).split(40):
                opt.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward(); opt.step()
            model.eval()
            with torch.inference_mode():
                model(x[180:])
        """,
        "x[180:]",
        "x[200:]",
    ),
    Pair(
        "stale-optimizer-params",
        """
        model = net()
        copies = [p.detach().clone().requires_grad_() for p in model.parameters()]
        opt = torch.optim.SGD(copies, lr=0.1)
        for i in batches():
            model.zero_grad(); F.cross_entropy(model(x[i]), y[i]).backward()
            for copied, p in zip(copies, model.parameters()):
                copied.grad = p.grad.clone()
            opt.step()
            for copied, p in zip(copies, model.parameters()):
                pass
        """,
        "pass",
        "p.data.copy_(copied)",
    ),
    Pair(
        "scheduler-per-batch",
        """
        model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.2, patience=1)
        for epoch in range(10):
            for i in torch.randperm(256).split(16):
                loss = F.cross_entropy(model(x[i]), y[i])
                opt.zero_grad(); loss.backward(); opt.step()
                plateau.step(loss.item())
        """,
        "                plateau.step",
        "            plateau.step",
    ),
    Pair(
        "zero-grad-before-step",
        """
        model = net(); opt = torch.optim.Adam(model.parameters(), lr=0.01)
        for i in batches():
            F.cross_entropy(model(x[i]), y[i]).backward()
            for p in model.parameters(): p.grad = None
            opt.step()
        """,
        "            for p in model.parameters(): p.grad = None\n            opt.step()\n",
        "            opt.step()\n            for p in model.parameters(): p.grad = None\n",
    ),
    Pair(
        "zero-init",
        """
        weights = {name: torch.zeros(8, 8, requires_grad=True) for name in ("first", "second")}
        opt = torch.optim.SGD(weights.values(), lr=0.1)
        for i in batches():
            guess = torch.tanh(x[i] @ weights["first"]) @ weights["second"]
            opt.zero_grad(); F.cross_entropy(guess, y[i]).backward(); opt.step()
        """,
        "torch.zeros(8, 8, requires_grad=True)",
        "(torch.randn(8, 8) / 3).requires_grad_()",
    ),
]
