"""Builds the pinned tools that a rehearsal runs."""
