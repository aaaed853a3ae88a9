"""Metrics of a run: a registry of declared names, meters that fill it, quantiles of streams, and where time went."""
