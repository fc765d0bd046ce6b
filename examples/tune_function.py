"""A search over a Python function: the best step size for gradient descent on Rosenbrock's valley.

python examples/tune_function.py
"""

from __future__ import annotations

import sys

import torch

import sonde.tune


def descend(parameters: sonde.tune.HyperParameters) -> float:
    point = torch.tensor([-1.0, 1.5], requires_grad=True)
    optimizer = torch.optim.SGD([point], lr=parameters.rate, momentum=parameters.momentum)
    for step in range(200):
        optimizer.zero_grad()
        x, y = point
        height = (1 - x) ** 2 + 100 * (y - x**2) ** 2
        height.backward()
        sonde.tune.report(height, step=step)  # NaN or Inf here ends the trial: it diverged
        optimizer.step()
    return height.item()


def main(trials: int) -> None:
    found = sonde.tune.search(
        descend,
        {
            "rate": {"bounds": [1e-5, 1.0], "type": "float", "log": True},
            "momentum": {"bounds": [0.0, 0.99], "type": "float"},
        },
        trials=trials,
        seed=0,
    )
    for trial in found.trials:
        print(trial.number, trial.state, trial.value, trial.parameters, trial.reason)
    best = found.best_trial
    assert best is not None
    print("best", best.value, best.parameters, dict(found.importance))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
