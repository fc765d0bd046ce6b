"""Finds parameters that a module would freeze in ``train()``, which the program never called.

The module is copied, and its own ``train()`` runs on the copy: what is frozen there, and trained in
the original, was meant to be frozen. Attributes that are named after freezing, without such a
method, are a hint only.
"""

from __future__ import annotations

import copy
import re
from types import CodeType

from torch import nn

from sonde.adapters.torch.calling_line import is_program
from sonde.adapters.torch.diagnosis.probes.restoring import put_back

MOST_ELEMENTS = 1 << 24
_DECLARES = re.compile(r"(^|_)(frozen|freeze)(_|$)")


def own_train(module: nn.Module) -> CodeType | None:
    """The code of the ``train`` that the program's own class of ``module`` defines."""
    code: CodeType | None = getattr(getattr(type(module), "train", None), "__code__", None)
    return code if code is not None and is_program(code.co_filename) else None


def frozen_by_train(module: nn.Module) -> list[str]:
    """The names of parameters that ``train()`` freezes in a copy and that are not frozen now; none
    if the module is large or cannot be copied."""
    if sum(each.numel() for each in module.parameters()) > MOST_ELEMENTS:
        return []
    is_training = module.training
    try:
        with put_back(module):
            twin = copy.deepcopy(module)
            twin.train(is_training)
    except Exception:  # The program's own code, on a copy that it does not expect.
        return []
    now = {name: each.requires_grad for name, each in module.named_parameters()}
    return [
        name
        for name, each in twin.named_parameters()
        if not each.requires_grad and now.get(name, False)
    ]


def frozen_by_name(module: nn.Module) -> tuple[str, int] | None:
    """An attribute such as ``frozen_stages`` with its value, if it is a number above zero."""
    for key, value in vars(module).items():
        if isinstance(value, (bool, int)) and value > 0 and _DECLARES.search(key.lower()):
            return key, int(value)
    return None
