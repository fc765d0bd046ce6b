"""A dump configuration in one line, for the log and for ``sonde status``."""

from __future__ import annotations

from sonde.capture.config import CaptureConfig
from sonde.core.text.number_text import size_text

_MODES = {
    "overflow": "ops with NaN or Inf",
    "exception": "the inputs of an op that raises",
}
_SAVED = {
    "tensor": "tensors",
    "statistic": "statistics",
    "full": "tensors and statistics",
    "step": "captured steps, for tensors",
}


def describe(config: CaptureConfig) -> str:
    """What is dumped, of which steps and ranks, and where to."""
    ops = config.selection.ops
    if config.saved_data == "graph":
        what = "graphs only"
    elif config.debug_mode != "off":
        what = _MODES[config.debug_mode]
    elif config.dump_mode == "set_dump":
        what = f"{_SAVED[config.saved_data]} of the ops chosen by sonde.set_dump()"
    elif ops is None:
        what = f"{_SAVED[config.saved_data]} of every op"
    else:
        what = f"{_SAVED[config.saved_data]} of {', '.join(pattern.text for pattern in ops)}"
    parts = [what]
    if config.saved_data != "graph":
        parts.append(" and ".join(f"{io}s" for io in sorted(config.ios)))
    if config.saves_statistics:
        parts.append(", ".join(config.statistic_categories))
    if config.sample_mode:
        parts.append(f"{config.sample_num} elements of each tensor")
    steps = config.selection.steps
    parts.append("every step" if steps.every and steps.stride == 1 else f"steps {steps}")
    if config.initial_step:
        parts.append(f"counted from {config.initial_step}")
    if config.ranks is not None:
        parts.append(f"ranks {', '.join(map(str, sorted(config.ranks)))}")
    parts.append(f"written {'in the background' if config.asynchronous else 'at once'}")
    if config.memory_budget is not None:
        parts.append(f"at most {size_text(config.memory_budget)} waiting")
    return f"{'; '.join(parts)}; to {config.path}, network {config.net_name}"
