"""The error that ends a rehearsal."""


class RehearsalError(Exception):
    """A message for the user: what is wrong and what to do."""
