"""Whether a value may be a secret, by its name."""

from __future__ import annotations

import itertools
import re

_SECRET = {"secret", "password", "passwd", "pwd", "token", "credential", "credentials", "authorization"}
_SECRET_KEYS = {"access", "api", "private"}


def may_be_secret(name: str) -> bool:
    """Whether a name such as `accessKeySecret` or `API_TOKEN` says so; `secretName` only names one."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    if words[-1:] in (["name"], ["ref"]):
        return False
    return bool(_SECRET & set(words)) or any(
        first in _SECRET_KEYS and second == "key" for first, second in itertools.pairwise(words)
    )
