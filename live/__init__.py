"""Looks at a live account or cluster, before a run changes it and after."""
