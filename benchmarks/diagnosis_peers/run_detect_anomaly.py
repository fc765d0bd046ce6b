"""Runs a script under ``torch.autograd.detect_anomaly``; see `attaching`.

The alarm is the error that ends the training; its places are the function of autograd and the lines
of the script in the trace of the forward call.
"""

from __future__ import annotations

import os
import re
import sys
import warnings

import torch
from attaching import Alarm, report, run_script

KINDS = {
    "sqrt": ("sqrt-at-zero", "unsafe-where-branch"),
    "pow": ("sqrt-at-zero",),
    "log": ("log-of-softmax", "unsafe-where-branch"),
    "softmax": ("fully-masked-attention-row",),
    "_safe_softmax": ("fully-masked-attention-row",),
    "mean": ("empty-reduction",),
    "std": ("std-of-one-sample",),
    "var": ("std-of-one-sample",),
}
"""The causes that the name of the op is enough to see."""
_FUNCTION = re.compile(r"Function '(\w+)' returned nan values in its (\d+)th output")
_LINE = re.compile(r'File "([^"]+\.py)", line (\d+), in (\S+)')


def main() -> None:
    output, script = sys.argv[2], os.path.basename(sys.argv[1])
    texts: list[str] = []
    warnings.showwarning = lambda message, *_, **__: texts.append(str(message))
    torch.autograd.set_detect_anomaly(True)
    failure = run_script()
    alarms: list[Alarm] = []
    found = _FUNCTION.search(failure or "")
    if found is not None:
        function = found.group(1)
        op = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", function.partition("Backward")[0]).lower()
        trace = "\n".join(text for text in texts if "Error detected in" in text)
        lines = [each for each in _LINE.findall(trace) if os.path.basename(each[0]) == script]
        names = [f"{script}:{line}" for _, line, _ in lines]
        names += [name for _, _, name in lines if name[0] != "<"]
        alarms.append(
            {
                "rule": function,
                "text": found.group(0),
                "kinds": KINDS.get(op, ()),
                "names": [*names, function, op, op.strip("_")],
            }
        )
    report(alarms, output)


if __name__ == "__main__":
    main()
