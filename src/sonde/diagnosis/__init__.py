"""Says why a training fails: rules that judge the evidence collected while it runs.

Knows no framework. An adapter fills a `TrainingEvidence`; `catalogue.diagnose` judges it. Programs
use the names below to write rules of their own, and get findings from ``sonde.diagnose``.
"""

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding

__all__ = ["DiagnosisRule", "Finding", "TrainingEvidence", "finding"]
