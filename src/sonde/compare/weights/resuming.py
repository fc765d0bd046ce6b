"""Checks of a checkpoint as a whole: can a training go on from it, are tied weights still tied?

- ``resume-without-optimizer-state`` (warning): the file counts steps or epochs, so that a training
  is to go on from it, and has weights, but no state of an optimizer. A file of weights alone, as it
  is published, is silent.
- ``broken-weight-tie`` (error): the ``config.json`` beside the file says that the embedding and the
  output layer share their weight (``tie_word_embeddings``), and the file has two that differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sonde.compare.parameter_names import role_of
from sonde.compare.weights.checkpoint import Checkpoint, same_bits
from sonde.core.files.checkpoint_keys import PROGRESS
from sonde.core.finding import Finding
from sonde.dump.bounded_file import read_bytes

_COUNTERS: Final = frozenset((*PROGRESS, "epoch_num", "step_num"))
_MAX_CONFIG_BYTES: Final = 16 << 20
_OUTPUTS: Final = ("lm_head.weight",)
_EMBEDDINGS: Final = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight")


def check_whole(checkpoint: Checkpoint) -> Iterator[Finding]:
    """The findings about the file as a whole."""
    yield from _check_resumable(checkpoint)
    yield from _check_tie(checkpoint)


def _check_resumable(checkpoint: Checkpoint) -> Iterator[Finding]:
    names = checkpoint.weights.keys()
    counters = [*checkpoint.progress]
    counters += [each for each in names if each in _COUNTERS and not checkpoint.weights[each].shape]
    has_state = checkpoint.has_optimizer or any("sonde.resume" in each for each in checkpoint.texts)
    if not counters or has_state or any(role_of(each, names) == "state" for each in names):
        return
    counted = ", ".join(dict.fromkeys(counters))
    yield Finding(
        "resume-without-optimizer-state",
        "warning",
        f"{checkpoint.path.name} says how far a training was ({counted}), but has no state of its "
        "optimizer",
        status="supported",
        places=(checkpoint.path.name,),
        evidence={"counters": counters, "weights": len(names)},
        advice="save optimizer.state_dict() beside the weights, and load it before training goes "
        "on: without it moments and step counts start anew",
    )


def _check_tie(checkpoint: Checkpoint) -> Iterator[Finding]:
    if not _is_tied(checkpoint.path):
        return
    output = next((each for each in checkpoint.weights if each.endswith(_OUTPUTS)), None)
    table = next((each for each in checkpoint.weights if each.endswith(_EMBEDDINGS)), None)
    if output is None or table is None:
        return
    first, second = checkpoint.weights[table], checkpoint.weights[output]
    if first.load is None or second.load is None or same_bits(first, second):
        return
    yield Finding(
        "broken-weight-tie",
        "error",
        f"{output} and {table} differ, although config.json ties them (tie_word_embeddings)",
        status="established",
        parameter=output,
        places=(output, table),
        evidence={"name": output, "tied_to": table, "shape": list(second.shape)},
        advice="tie the weights again before saving (model.tie_weights()), or set "
        "tie_word_embeddings to false",
    )


def _is_tied(path: Path) -> bool:
    """Whether the model's configuration beside the file says that it ties its embedding."""
    config = (path if path.is_dir() else path.parent) / "config.json"
    try:
        found = json.loads(read_bytes(config, _MAX_CONFIG_BYTES, slug="json-file"))
    except Exception:  # The file is another program's; the checkpoint itself is not in doubt.
        return False
    return isinstance(found, dict) and found.get("tie_word_embeddings") is True
