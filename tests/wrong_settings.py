"""The wrong settings files of `tests/data/wrong_settings`: one error each; its sentence is in the first lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "wrong_settings"

_HEAD = re.compile(rb"# expect(?: at (?P<line>\d+))?: (?P<sentence>[^\n]*)\n(?P<passes># schema: passes\n)?")


@dataclass(frozen=True)
class WrongFile:
    """A wrong settings file."""

    path: Path
    sentence: str
    line: int | None
    schema_passes: bool
    """Whether a schema can't express the error."""

    @property
    def error(self) -> str:
        """The error that a check reports."""
        return f"{self.path.name}{f':{self.line}' if self.line else ''}: {self.sentence}"


def wrong_file(path: Path) -> WrongFile:
    """Read a file's first lines."""
    head = _HEAD.match(path.read_bytes())
    assert head, f"{path.name} does not begin with what is expected of it"
    line = int(head["line"]) if head["line"] else None
    return WrongFile(path, head["sentence"].decode(), line, head["passes"] is not None)


WRONG_FILES = [wrong_file(path) for path in sorted(FOLDER.glob("*.yaml"))]
