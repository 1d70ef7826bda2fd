"""YAML as Pulumi's engine reads it, with the line of each key and value.

The engine's library (Go's yaml.v3) and PyYAML disagree on plain scalars: `yes` is a text to the one and a boolean to
the other, `1e3` a number and a text, `1:30` a text and ninety. What is checked here must be what the program gets, so
that scalars are read by the engine's rules. A test holds them against the real engine.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml

Path = tuple[int | str, ...]
"""Keys of maps, and positions in lists, from the top of the file."""

_PLAIN = "!plain"
_MERGE = "tag:yaml.org,2002:merge"
_STANDARD = "tag:yaml.org,2002:"
_MOST_VALUES = 50_000
"""More can only come from aliases of aliases, which the engine refuses too."""
_DEEPEST = 100
"""Levels of maps and lists, which is more than any setting has and less than Python can walk."""
_MOST_DIGITS = 66
"""Those of the longest whole number of 64 bits, with sign and `0b`."""

_OF_TEXT_KEYS: tuple[Path, ...] = ((), ("config",))
"""Maps in which the engine refuses other keys; in those further down it makes texts of them."""

_TOO_DEEP = "maps or lists are nested too deep: no setting is."

_CONSTANTS: dict[str, object] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[Tt](\d{1,2}):(\d{1,2}):(\d{1,2})(\.\d+)?(Z|[-+]\d\d:\d\d)| (\d{1,2}):(\d{1,2}):(\d{1,2})(\.\d+)?)?",
    re.ASCII,
)


@dataclass(frozen=True)
class Fault:
    """What is wrong with a file."""

    sentence: str
    line: int | None = None
    """Counted from 1."""
    path: Path = ()
    """Of the value that is in doubt with it."""


@dataclass
class Document:
    """A file's content."""

    value: Any = None
    """Of maps, lists, texts, numbers, booleans and null."""
    lines: dict[Path, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    """What can't be read, what the engine refuses or passes over, and what it reads in another way than it looks."""
    readable: bool = False
    """Whether there is a value, with faults or without."""


def load(text: str) -> Document:
    """Read a file's first document; nothing is raised."""
    try:
        return _loaded(text, _FastLoader)
    except yaml.YAMLError:
        # The same grammar, with more to say of what breaks it.
        document = Document()
    try:
        return _loaded(text, _Loader)
    except yaml.MarkedYAMLError as error:
        document.faults.append(_syntax_fault(error))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.faults.append(
            Fault(f"the character U+{ord(text[error.position]):04X} is not allowed: remove it.", line)
        )
    except RecursionError:
        document.faults.append(Fault(_TOO_DEEP))
    return document


def _loaded(text: str, loader_class: type[yaml.SafeLoader | yaml.CSafeLoader]) -> Document:
    document = Document()
    loader = loader_class(text)
    if loader.check_node() and (node := loader.get_node()):
        document.value = _Reader(document).value_of(node, ())
    document.readable = True
    if loader.check_node() and (node := loader.get_node()):
        document.faults.append(
            Fault("a second document begins, which the engine passes over: remove the `---`.", _line(node))
        )
    return document


def plain(text: str) -> Any:
    """The value of a scalar without quotes; a date becomes the text that the engine makes of it."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if time := _time(text):
        return time
    digits = text.replace("_", "") if text[0] in "-+0123456789" else text
    if len(digits) <= _MOST_DIGITS:
        whole = int(digits, 8) if _OCTAL.fullmatch(digits) else int(digits, 0) if _WHOLE.fullmatch(digits) else None
        if whole is not None and -(2**63) <= whole < 2**64:
            return whole
    if _FLOAT.fullmatch(digits) and math.isfinite(float(digits)):
        return _number(float(digits))
    return text


def _number(number: float) -> float:
    # On its way to the program it loses a fraction that is none.
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _time(text: str) -> str | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, *clock = match.groups()
    hour, minute, second, fraction = clock[:4] if clock[0] else clock[5:]
    zone = clock[4] if clock[4] not in (None, "Z") else None
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    offset = zone.replace(":", "") if zone else "+0000"
    return f"{moment:%Y-%m-%d %H:%M:%S}{(fraction or '')[:10].rstrip('0.')} {offset} {offset if zone else 'UTC'}"


# Leaves it to `plain` what a plain scalar is.
_RESOLVERS = {"<": [(_MERGE, re.compile(r"<<\Z"))], None: [(_PLAIN, re.compile(""))]}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _RESOLVERS


class _FastLoader(yaml.CSafeLoader):
    yaml_implicit_resolvers = _RESOLVERS


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._above: list[yaml.Node] = []
        self._values = 0

    def value_of(self, node: yaml.Node, path: Path) -> Any:
        self._document.lines.setdefault(path, _line(node))
        self._values += 1
        if self._values >= _MOST_VALUES:
            if self._values == _MOST_VALUES:
                self._refuse(
                    node, path, f"aliases make more than {_MOST_VALUES} values of the file: write less of them."
                )
            return None
        if any(node is one for one in self._above):
            return self._refuse(node, path, "an alias stands inside what it stands for: write it out.")
        if len(self._above) > _DEEPEST:
            return self._refuse(node, path, _TOO_DEEP)
        self._above.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._map(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.value_of(item, (*path, index)) for index, item in enumerate(node.value)]
            return self._scalar(node, path) if isinstance(node, yaml.ScalarNode) else None
        finally:
            self._above.pop()

    def _map(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in lines:
                self._refuse(
                    key_node,
                    (*path, key),
                    f"{key} is set a second time, after line {lines[key]}: remove one of the two.",
                )
                continue
            lines[key] = self._document.lines[*path, key] = _line(key_node)
            result[key] = self.value_of(value_node, (*path, key))
        for one in merged:
            other = self.value_of(one, path)
            if isinstance(other, dict):
                result = {**other, **result}
            else:
                self._refuse(one, path, "`<<` merges maps, and this is none: remove it.")
        return result

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(node, path, "a key is a text, and not a list or a map: remove the `?`, `[` or `{` before it.")
            return None
        key = self._scalar(node, path)
        if not isinstance(key, str) and path in _OF_TEXT_KEYS:
            self._refuse(node, path, f"the key {node.value} is no text: write it in quotes, or remove it.")
            return None
        if isinstance(key, bool):
            return str(key).lower()
        return "<nil>" if key is None else str(key)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        kind = node.tag.removeprefix(_STANDARD)
        if kind in ("str", "binary", "merge"):
            return node.value
        if kind not in (_PLAIN, "int", "float", "bool", "null", "timestamp"):
            return self._refuse(node, path, f"the tag {node.tag} has no meaning here: remove it.")
        value = plain(node.value)
        digits = node.value.replace("_", "")
        if _OCTAL.fullmatch(digits) and digits.strip("+-0"):
            meant = digits.lstrip("+0")
            reason = "since a number that starts with 0 is octal"
            self._refuse(node, path, f"{node.value} is {value}, {reason}: write {value}, or {meant} if that is meant.")
        return value

    def _refuse(self, node: yaml.Node, path: Path, sentence: str) -> None:
        self._document.faults.append(Fault(sentence, _line(node), path))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax_fault(error: yaml.MarkedYAMLError) -> Fault:
    problem, line = error.problem or "it can't be read", _line_at(error.problem_mark)
    if "'\\t'" in problem:
        return Fault("a tab stands where YAML takes spaces only: indent with spaces.", line)
    begin = _line_at(error.context_mark)
    if error.context and begin and begin != line:
        # What was not closed shows only further down, at the end of the file perhaps.
        return Fault(f"this is no YAML ({error.context}: {problem} in line {line}): mend it.", begin)
    return Fault(f"this is no YAML ({problem}): mend it.", line)


def _line_at(mark: yaml.Mark | None) -> int | None:
    return mark.line + 1 if mark else None
