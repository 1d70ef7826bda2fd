"""The invalid settings files in `tests/data/wrong_settings`: each has a single error, given in its first lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "wrong_settings"

_HEAD = re.compile(rb"# expect(?: at (?P<line>\d+))?: (?P<sentence>[^\n]*)\n(?P<passes># schema: passes\n)?")


@dataclass(frozen=True)
class WrongFile:
    """An invalid settings file."""

    path: Path
    sentence: str
    line: int | None
    schema_passes: bool
    """Whether the file passes the schema, which cannot express the error."""

    @property
    def error(self) -> str:
        """Return the error that a check reports."""
        return f"{self.path.name}{f':{self.line}' if self.line else ''}: {self.sentence}"


def wrong_file(path: Path) -> WrongFile:
    """Read the expected error from a file's first lines."""
    head = _HEAD.match(path.read_bytes())
    assert head, f"{path.name} does not begin with `# expect: `"
    line = int(head["line"]) if head["line"] else None
    return WrongFile(path, head["sentence"].decode(), line, head["passes"] is not None)


WRONG_FILES = [wrong_file(path) for path in sorted(FOLDER.glob("*.yaml"))]
