"""The names of parameters in MindSpore and in PyTorch.

=============== ================= ====================
part            MindSpore         PyTorch
=============== ================= ====================
norms           gamma, beta       weight, bias
BatchNorm       moving_mean       running_mean
BatchNorm       moving_variance   running_var
BatchNorm       (none)            num_batches_tracked
Embedding       embedding_table   weight
PReLU           w                 weight
LSTM, GRU, RNN  w_ih_l0, ...      weight_ih_l0, ...
=============== ================= ====================

Dense and Linear, and convolutions, have ``weight`` and ``bias`` in both, of the same shape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

Role = Literal["weight", "buffer", "counter", "state"]
Family = Literal["torch", "mindspore"]

COUNTER = "num_batches_tracked"
_LEAVES = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "moving_var": "running_var",
    "embedding_table": "weight",
    "w": "weight",
    "kernel": "weight",
}
_MAX_PARTS = 64
_BUFFERS = frozenset({"running_mean", "running_var"})
_TRAINED = frozenset({"weight", "bias"})
_RECURRENT = re.compile(r"(w|weight|b|bias)_(ih|hh)(_l[0-9]+(?:_reverse)?)?")
# Prefixes that wrappers add to names.
_WRAPPERS = frozenset({"module", "_orig_mod", "_backbone", "_network", "network", "backbone"})
_STATE_PREFIXES = frozenset(
    {"moments", "moment1", "moment2", "accum", "stat", "adam_m", "adam_v", "mean_square"}
    | {"mean_gradient", "exp_avg", "exp_avg_sq", "momentum_buffer", "accumulation"}
)
_STATE_NAMES = frozenset(
    {"global_step", "learning_rate", "momentum", "beta1_power", "beta2_power", "beta1", "beta2"}
    | {"weight_decay", "scale_sense", "current_iterator_step", "last_overflow_iterator_step"}
    | {"epoch_num", "step_num", "loss_scale"}
)
_STATE_ROOTS = ("optimizer.", "optimizer_state", "optimizer_states.", "lr_scheduler.", "sonde.")


def tokens(name: str) -> tuple[str, ...]:
    """The parts of a name without wrappers; the last part as in PyTorch."""
    parts = [part for part in re.split(r"[./]", name) if part] or [name]
    if len(parts) > _MAX_PARTS:  # Not the name of a parameter: bound the cost.
        parts = [".".join(parts[: 1 - _MAX_PARTS]), *parts[1 - _MAX_PARTS :]]
    kept = [part for part in parts[:-1] if part not in _WRAPPERS]
    return (*kept, canonical_leaf(parts[-1]))


def canonical_leaf(leaf: str) -> str:
    """The last part of a name as in PyTorch."""
    found = _RECURRENT.fullmatch(leaf)
    if found:
        kind = "weight" if found[1] in ("w", "weight") else "bias"
        return f"{kind}_{found[2]}{found[3] or ''}"
    return _LEAVES.get(leaf, leaf)


def is_recurrent_part(name: str) -> bool:
    """Whether the parameter belongs to an LSTM, GRU or RNN layer."""
    leaf = re.split(r"[./]", name)[-1]
    found = _RECURRENT.fullmatch(leaf)
    return found is not None and found[3] is not None


def role_of(name: str, names: Collection[str]) -> Role:
    """The role of a parameter; ``names`` are all names of the checkpoint.

    ``state`` belongs to the optimizer: ``moments.fc.weight`` if there is a ``fc.weight``.
    """
    prefix, _, rest = name.partition(".")
    if name in _STATE_NAMES or name.startswith(_STATE_ROOTS):
        return "state"
    if prefix in _STATE_PREFIXES and rest in names:
        return "state"
    leaf = tokens(name)[-1]
    if leaf == COUNTER:
        return "counter"
    return "buffer" if leaf in _BUFFERS else "weight"


def is_trainable(name: str, role: Role) -> bool | None:
    """Whether a parameter is trained, judged by its name; None if the name does not show it.

    A checkpoint does not record whether a weight is frozen.
    """
    if role != "weight":
        return False
    leaf = tokens(name)[-1]
    return True if leaf in _TRAINED or _RECURRENT.fullmatch(leaf) else None


def renamed(
    shapes: Mapping[str, Sequence[int]], to: Family, *, keep_counters: bool = False
) -> dict[str, str | None]:
    """The name of each parameter in the other framework; None if it has no counterpart there.

    For MindSpore, a norm is recognised by its one-dimensional weight, a BatchNorm by its running
    mean, an embedding by a matrix without bias in a module of that name. Other names are kept, and
    so are names that would be equal after renaming.
    """
    modules: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        module, _, leaf = name.rpartition(".")
        modules.setdefault(module, {})[leaf] = tuple(shape)
    found: dict[str, str | None] = {}
    for name, shape in shapes.items():
        module, _, leaf = name.rpartition(".")
        if to == "torch":
            new = leaf if leaf == "kernel" else canonical_leaf(leaf)
        elif leaf == COUNTER and not keep_counters:
            found[name] = None
            continue
        else:
            new = _to_mindspore(leaf, module, tuple(shape), modules[module])
        found[name] = f"{module}.{new}" if module else new
    counts = Counter(found.values())
    return {old: old if new is not None and counts[new] > 1 else new for old, new in found.items()}


def _to_mindspore(
    leaf: str, module: str, shape: tuple[int, ...], others: Mapping[str, tuple[int, ...]]
) -> str:
    if leaf in ("running_mean", "running_var"):
        return "moving_mean" if leaf == "running_mean" else "moving_variance"
    weight = others.get("weight")
    is_norm = "running_mean" in others or (
        weight is not None and len(weight) == 1 and ("bias" in others or _sounds(module, _NORMS))
    )
    if is_norm and leaf in _TRAINED:
        return "gamma" if leaf == "weight" else "beta"
    is_table = len(shape) == 2 and "bias" not in others and _sounds(module, _TABLES)
    return "embedding_table" if leaf == "weight" and is_table else leaf


_NORMS = re.compile(r"(?i)norm|(?:^|[._])(?:ln|bn|gn)(?:[._0-9]|$)")
_TABLES = re.compile(r"(?i)embed|(?:^|[._])(?:wte|wpe|emb)(?:[._0-9]|$)")


def _sounds(module: str, pattern: re.Pattern[str]) -> bool:
    return pattern.search(".".join(module.split(".")[-2:])) is not None
