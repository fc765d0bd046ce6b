"""Runs a training script unchanged under another tool, and writes the tool's alarms as JSON.

    python run_TOOL.py SCRIPT ALARMS.json

An alarm is ``{"rule": ..., "text": ..., "kinds": [...], "names": [...]}``; ``names`` are the places
that the tool names: modules, parameters, functions, ``file.py:line``. ``kinds`` are the causes that
the rule can be read as naming; in doubt, it names them.
"""

from __future__ import annotations

import functools
import json
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Alarm = dict[str, Any]


def run_script() -> str | None:
    """Run the script of the command line; returns the traceback of an exception that ends it."""
    script = sys.argv[1]
    sys.argv = [script]
    sys.path.insert(0, os.getcwd())
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit:
        pass
    except BaseException:
        return traceback.format_exc()
    return None


def report(alarms: list[Alarm], path: str, failure: str | None = None) -> None:
    """Write the alarms of rank 0. ``failure`` is why the tool could not observe the script."""
    if os.environ.get("RANK", "0") == "0":
        with open(path, "w") as file:
            json.dump({"alarms": alarms, "failure": failure}, file)


def attach_to_models(attach: Callable[[nn.Module, torch.optim.Optimizer], None]) -> None:
    """Call ``attach`` once for each outermost module with parameters, before its first call with
    gradients that follows the making of an optimizer, as a user would before the loop. The
    optimizer is the last one that holds a parameter of the module, else the last one."""
    optimizers: list[torch.optim.Optimizer] = []
    seen: set[int] = set()
    depth = 0
    make, call = torch.optim.Optimizer.__init__, nn.Module.__call__

    @functools.wraps(make)
    def made(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        optimizers.append(self)

    @functools.wraps(call)
    def called(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        is_root = not depth and optimizers and torch.is_grad_enabled() and id(self) not in seen
        held = {id(each) for each in self.parameters()} if is_root else set()
        if held:
            seen.add(id(self))
            attach(self, _holder(optimizers, held))
        depth += 1
        try:
            return call(self, *args, **kwargs)
        finally:
            depth -= 1

    torch.optim.Optimizer.__init__ = made  # type: ignore[method-assign]
    nn.Module.__call__ = called  # type: ignore[method-assign]


def _holder(optimizers: list[torch.optim.Optimizer], held: set[int]) -> torch.optim.Optimizer:
    for optimizer in reversed(optimizers):
        if any(id(each) in held for group in optimizer.param_groups for each in group["params"]):
            return optimizer
    return optimizers[-1]
