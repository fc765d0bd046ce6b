"""Finds parameters that a module would freeze in ``train()``, which the program never called.

The module is copied, and its own ``train()`` runs on the copy: what is frozen there, and trained in
the original, was meant to be frozen. Attributes that are named after freezing, without such a
method, are a hint only. Flags without effect are found, too: ``requires_grad`` as an attribute of a
module, and a misspelt one of a parameter.
"""

from __future__ import annotations

import ast
import copy
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from torch import nn

from sonde.adapters.torch.calling_line import is_program, source_of
from sonde.adapters.torch.diagnosis.element_count import element_count
from sonde.adapters.torch.diagnosis.probes.restoring import put_back
from sonde.core.graph import Source
from sonde.core.interruption import pass_on

MOST_ELEMENTS = 1 << 24
FLAG = "requires_grad"
ALIKE = 0.8
"""How alike an attribute and `FLAG` are that is taken for a misspelt one."""
_DECLARES = re.compile(r"(^|_)(frozen|freeze)(_|$)")


def own_train(module: nn.Module) -> CodeType | None:
    """The code of the ``train`` that the program's own class of ``module`` defines."""
    code: CodeType | None = getattr(getattr(type(module), "train", None), "__code__", None)
    return code if code is not None and is_program(code.co_filename) else None


def frozen_by_train(module: nn.Module) -> list[str]:
    """The names of parameters that ``train()`` freezes in a copy and that are not frozen now; none
    if the module is large or cannot be copied."""
    if sum(map(element_count, module.parameters())) > MOST_ELEMENTS:
        return []
    is_training = module.training
    try:
        with put_back(module):
            twin = copy.deepcopy(module)
            twin.train(is_training)
    except Exception as error:  # The program's own code, on a copy that it does not expect.
        pass_on(error)
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


def flags_without_effect(module: nn.Module) -> Iterator[tuple[str, list[str]]]:
    """Attributes that were set to False in place of ``requires_grad``, with the names of the
    parameters that they leave as they are."""
    if vars(module).get(FLAG) is False:
        yield FLAG, [name for name, each in module.named_parameters() if each.requires_grad]
    for name, parameter in module.named_parameters(recurse=False):
        for key, value in getattr(parameter, "__dict__", {}).items():
            alike = difflib.SequenceMatcher(None, key, FLAG).ratio()
            if value is False and alike >= ALIKE and parameter.requires_grad:
                yield key, [name]


def line_that_sets(key: str) -> Source | None:
    """The first line of the program's modules that assigns to an attribute of this name."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not is_program(file):
            continue
        try:
            tree = ast.parse(Path(file).read_bytes())
        except (OSError, SyntaxError, ValueError) as error:
            pass_on(error)
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and any(
                isinstance(each, ast.Attribute) and each.attr == key for each in node.targets
            ):
                return source_of(file, node.lineno, "")
    return None
