"""Explains why an op made NaN or Inf, from the values of its inputs and outputs.

One table of ops (``table``) for the command line, the page, the guard and replays. An explanation
is a ``Finding`` of rule ``non_finite_cause``: it says only what the values show, and how many of
the NaN or Inf lie exactly where the cause is.
"""

from sonde.watch.explanations.op_facts import OpFacts, TensorFacts, facts_of_call
from sonde.watch.explanations.table import EXPLAINED_OPS, explain

__all__ = ["EXPLAINED_OPS", "OpFacts", "TensorFacts", "explain", "facts_of_call"]
