"""Reports what a rank computes, so that a server can compare the ranks (``sonde.ranks``)."""
