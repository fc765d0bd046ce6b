"""Observes code that torch.compile compiled: describes its graphs and inserts observers."""
