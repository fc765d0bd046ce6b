"""Gives the networks of a captured step the names that they had in the training.

There they were named by the variables that held them, which a fresh process does not have.
"""

from __future__ import annotations

from torch import nn

from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.adapters.torch.replay.storage.wrappers import unwrapped


def named_roots(record: StepRecord) -> dict[str, nn.Module]:
    """The outermost modules of a step by scope name (``Default/network-Net``).

    A module that was a part of a larger one (``Default/both-ModuleList/0-Linear``) is put into an
    empty module in the place of that one, so that its parameters have the same names.
    """
    found: dict[str, nn.Module] = {}
    calls = ((call.name, call.module) for call in record.calls)
    for full_name, wrapper in (*calls, *record.owners.items()):
        module, _ = unwrapped(wrapper)
        parts = full_name.split("/")
        if len(parts) == 2:
            found.setdefault(full_name, module)
        elif len(parts) > 2:
            name = "/".join(parts[:2])
            owner = found.setdefault(name, _stand_in(parts[1]))
            for part in parts[2:-1]:
                attribute = _attribute(part)
                if attribute not in owner._modules:
                    owner.add_module(attribute, _stand_in(part))
                inner = owner._modules[attribute]
                assert inner is not None
                owner = inner
            if _attribute(parts[-1]) not in owner._modules:
                owner.add_module(_attribute(parts[-1]), module)
    return found


def _attribute(part: str) -> str:
    """``encoder`` of ``encoder-Sequential``, and of ``encoder``, where scopes have no classes."""
    return part.rpartition("-")[0] or part


def _stand_in(part: str) -> nn.Module:
    """An empty module whose class has the name that a part of a scope has."""
    made: nn.Module = type(part.rpartition("-")[2], (nn.Module,), {})()
    return made
