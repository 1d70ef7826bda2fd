"""How the vendor's servers say no."""

from __future__ import annotations


class Refused(Exception):
    """A request that the vendor's servers do not carry out; the message starts with their error code."""
