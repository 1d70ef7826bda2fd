"""Read the live account and cluster, before and after a run."""
