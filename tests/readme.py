"""What README.md says can be done, and what it promises to be printed."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
README = CHECKOUT / "README.md"

_BLOCK = re.compile(r"^##+ (?P<section>[^\n]*)|^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """One line of a `sh` block; of the last line, what the `text` block after it promises."""

    line: str
    promise: str = ""

    def keeps(self, output: str) -> bool:
        """Whether the promise is in the output: `...` stands for anything, a decimal or an age for any other."""
        spans = [r"\s+".join(re.escape(word) for word in span.split()) for span in self.promise.split("...")]
        pattern = re.sub(r"\d+\\\.\d+|\b\d+s\b", r"\\S+", r".*?".join(spans))
        return re.search(pattern, output, re.DOTALL) is not None


def commands() -> dict[str, list[Command]]:
    """The commands of each section that has some, in order."""
    found: dict[str, list[Command]] = {}
    section = ""
    for block in _BLOCK.finditer(README.read_text()):
        if block["section"]:
            section = block["section"]
        elif block["kind"] == "sh":
            lines = [line.partition(" #")[0].strip() for line in block["body"].splitlines()]
            found.setdefault(section, []).extend(Command(line) for line in lines if line)
        elif block["kind"] == "text":
            found[section][-1] = replace(found[section][-1], promise=block["body"])
    return found
