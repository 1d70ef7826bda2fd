"""Look at a live account or cluster, before a run and after it."""
