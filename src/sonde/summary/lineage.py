"""The lineage of a model (network, optimizer, data, results) as plain values."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

from torch import nn

from sonde.dump.lineage import dataset_path

MOST_LEVELS = 8


def train_lineage(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The facts in the arguments of a training; unknown ones are left out."""
    network, optimizer = arguments.get("train_network"), arguments.get("optimizer")
    dataset = arguments.get("train_dataset")
    found = {
        "script": sys.argv[0] if sys.argv else None,
        "arguments": shlex.join(sys.argv[1:]) or None,
        "train_network": _name(network),
        "loss_function": _name(arguments.get("loss_fn")),
        "optimizer": _name(optimizer),
        "epoch": arguments.get("epoch_num"),
        "batch_num": arguments.get("batch_num"),
        "device_num": arguments.get("device_number"),
        "parallel_mode": arguments.get("parallel_mode"),
        "model_size": _size(network),
        "model_ckpt": _text(arguments.get("latest_ckpt_file")),
        **_optimizer_numbers(optimizer),
        **_dataset_facts("train_dataset", dataset),
    }
    return {name: value for name, value in found.items() if value is not None}


def eval_lineage(arguments: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Results of an evaluation, and the data it used."""
    found = {
        "metrics": dict(metrics),
        **_dataset_facts("valid_dataset", arguments["valid_dataset"]),
    }
    return {name: value for name, value in found.items() if value is not None}


def dataset_graph(dataset: Any, level: int = 0) -> dict[str, Any]:
    """A dataset and the datasets it wraps, with their visible settings."""
    found: dict[str, Any] = {"type": type(dataset).__name__}
    for name in ("batch_size", "drop_last", "num_workers"):
        value = getattr(dataset, name, None)
        if isinstance(value, (bool, int)):
            found[name] = value
    for name in ("sampler", "transform", "transforms", "target_transform", "collate_fn"):
        value = getattr(dataset, name, None)
        if value is not None:
            found[name] = _name(value)
    found.update({"size": _length(dataset), "path": dataset_path(dataset)})
    inner = [getattr(dataset, name, None) for name in ("dataset", "datasets", "datapipe")]
    children = [
        child
        for one in inner
        if one is not None
        for child in (one if isinstance(one, (list, tuple)) else [one])
    ]
    if children and level < MOST_LEVELS:
        found["children"] = [dataset_graph(child, level + 1) for child in children]
    return {name: value for name, value in found.items() if value is not None}


def _optimizer_numbers(optimizer: Any) -> dict[str, Any]:
    """The settings of the optimizer's first group, without its parameters."""
    groups = getattr(optimizer, "param_groups", None)
    if not groups:
        return {}
    numbers: dict[str, Any] = {}
    for name, value in groups[0].items():
        if name in ("params", "initial_lr"):
            continue
        key = "learning_rate" if name == "lr" else name
        if isinstance(value, (bool, int, str)):
            numbers[key] = value
        elif isinstance(value, (tuple, list)):
            numbers[key] = str(value)
        elif hasattr(value, "__float__"):
            numbers[key] = float(value)
    return numbers


def _dataset_facts(name: str, dataset: Any) -> dict[str, Any]:
    inner = getattr(dataset, "dataset", dataset)
    return {
        name: _name(inner),
        f"{name}_path": dataset_path(inner),
        f"{name}_size": _length(inner),
        "batch_size": getattr(dataset, "batch_size", None),
    }


def _size(network: Any) -> int | None:
    """The bytes of parameters and buffers."""
    if not isinstance(network, nn.Module):
        return None
    tensors = {id(one): one for one in (*network.parameters(), *network.buffers())}
    return sum(one.numel() * one.element_size() for one in tensors.values())


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def _name(value: Any) -> str | None:
    if value is None:
        return None
    return str(getattr(value, "__name__", type(value).__name__))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
