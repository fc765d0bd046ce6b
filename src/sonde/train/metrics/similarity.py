"""The similarity of the rows of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from torchmetrics.functional import pairwise_cosine_similarity, pairwise_linear_similarity

from sonde.core.arguments import check_bool, check_string
from sonde.train.metrics.contract import MetricInputError, rearrange_inputs
from sonde.train.metrics.gathered import GatheredMetric, Rows
from sonde.train.metrics.inputs import tensors

SIMILARITIES = ("cosine", "dot")
REDUCTIONS = ("none", "sum", "mean")


class CosineSimilarity(GatheredMetric[Rows]):
    """The similarity of each row with each other row.

    ``similarity`` is ``"cosine"`` or ``"dot"``; ``reduction`` sums or averages each line of the
    square matrix; ``zero_diagonal`` sets the similarity of each row with itself to 0 (before
    reducing). Computed in float64. The cosine of a row of zeros is NaN; NaN propagates. All rows
    are kept in memory until ``clear``, and the matrix grows with their square.
    """

    def __init__(
        self, similarity: str = "cosine", reduction: str = "none", zero_diagonal: bool = True
    ) -> None:
        owner = "CosineSimilarity"
        self.similarity = check_string(similarity, SIMILARITIES, "similarity", owner)
        self.reduction = check_string(reduction, REDUCTIONS, "reduction", owner)
        self.zero_diagonal = check_bool(zero_diagonal, "zero_diagonal", owner)

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a matrix, one vector per row."""
        (matrix,) = tensors("CosineSimilarity", inputs, "matrix")
        if matrix.ndim != 2:
            raise MetricInputError(
                f"CosineSimilarity: a matrix is needed, not the shape {tuple(matrix.shape)}"
            )
        self._check_classes(matrix.shape[1])
        state = self._state_or(lambda: Rows(1, num_classes=matrix.shape[1]))
        state.update(matrix.double())

    def eval(self) -> np.ndarray:
        """The square matrix, or one number per row when reduced."""
        (rows,) = self._merged().compute()
        cosine = self.similarity == "cosine"
        alike = pairwise_cosine_similarity if cosine else pairwise_linear_similarity
        reduction: Any = self.reduction
        result: np.ndarray = alike(
            rows, reduction=reduction, zero_diagonal=self.zero_diagonal
        ).numpy()
        return result
