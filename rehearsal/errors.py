"""What the rehearsal says when it can't go on."""


class RehearsalError(Exception):
    """One sentence for the user: what is wrong, and what to do."""
