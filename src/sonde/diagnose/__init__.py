"""Says why a training fails: rules that judge the evidence collected while it runs.

Knows no framework. An adapter fills an `evidence.Evidence`; `catalogue.diagnose` judges it.
"""
