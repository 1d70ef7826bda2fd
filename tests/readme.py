"""The commands in README.md, CONTRIBUTING.md and docs/, with the output that the page shows.

Each section with commands has one test that runs them: it reads them with `section("page", "heading")`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
README = CHECKOUT / "README.md"
PAGES = [README, CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"^##+ (?P<heading>[^\n]*)|^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code, under its heading."""

    heading: str
    kind: str
    body: str


@dataclass(frozen=True)
class Command:
    """One line of a `sh` block. The last line has the `text` block after it as its expected output."""

    line: str
    expected: str = ""

    def matches(self, output: str) -> bool:
        """Return whether the expected text is in the output.

        `...` matches any text. A decimal or an age matches any word.
        """
        spans = [r"\s+".join(re.escape(word) for word in span.split()) for span in self.expected.split("...")]
        pattern = re.sub(r"\d+\\\.\d+|\b\d+s\b", r"\\S+", r".*?".join(spans))
        return re.search(pattern, output, re.DOTALL) is not None


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(CHECKOUT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of code of a page."""
    heading = ""
    for match in _BLOCK.finditer(page.read_text()):
        if match["heading"]:
            heading = match["heading"]
        else:
            yield Block(heading, match["kind"], match["body"])


@cache
def sections() -> dict[tuple[str, str], list[Command]]:
    """Return the commands of each section that has some, by page and heading.

    Raises:
        ValueError: a `text` block does not follow a command.
    """
    found: dict[tuple[str, str], list[Command]] = {}
    for page in PAGES:
        for block in blocks(page):
            commands = found.setdefault((name_of(page), block.heading), [])
            if block.kind == "sh":
                lines = [line.partition(" #")[0].strip() for line in block.body.splitlines()]
                commands += [Command(line) for line in lines if line]
            elif block.kind == "text":
                if not commands or commands[-1].expected:
                    raise ValueError(f"{name_of(page)}, {block.heading}: a text block follows no command")
                commands[-1] = replace(commands[-1], expected=block.body)
    return {key: commands for key, commands in found.items() if commands}


def section(page: str, heading: str) -> list[Command]:
    """Return the commands of a section, in order, for the test that runs them."""
    return sections()[page, heading]


def yaml_block(page: str, text: str) -> str:
    """Return the YAML block of a page that contains the text."""
    [body] = [block.body for block in blocks(CHECKOUT / page) if block.kind == "yaml" and text in block.body]
    return body
