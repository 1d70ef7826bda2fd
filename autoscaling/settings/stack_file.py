"""A stack's settings file `Pulumi.<stack>.yaml`: read as Pulumi's engine reads it, and checked without the engine."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from autoscaling.settings import Settings, SettingsError, parse_config, warnings
from autoscaling.settings.engine_config import OCTAL, PROJECT, engine_text, full_key, number, plain_text
from autoscaling.settings.errors import Location, aliases, key_of
from autoscaling.settings.wording import near_one, nearest

TOP_KEYS = ("config", "environment", "secretsprovider", "encryptedkey", "encryptionsalt")
"""The keys of a settings file that the engine reads."""

_ENCRYPTED = "(encrypted)"
_STANDARD = "tag:yaml.org,2002:"
_TEXT_KEYS: tuple[Location, ...] = ((), ("config",))
"""Maps in which the engine refuses keys that are not text. In inner maps, it converts such keys to text."""
_SAME_PROJECT = 0.8
"""From this similarity on, another namespace is a misspelt name of this project."""


class SettingsFileError(Exception):
    """The file can't be read as YAML."""

    def __init__(self, sentence: str, line: int | None = None) -> None:
        super().__init__(sentence)
        self.line = line


@dataclass
class Document:
    """A file's content in YAML."""

    value: Any = None
    lines: dict[Location, int] = field(default_factory=dict)
    """The line of each key or entry."""
    octals: dict[int, str] = field(default_factory=dict)
    """A message, by line, for each number that a leading zero makes octal."""


@dataclass
class StackFile:
    """The content of a settings file."""

    name: str
    config: dict[str, str] = field(default_factory=dict)
    """Each key, with its namespace, as the engine gives it to the program."""
    encrypted: set[str] = field(default_factory=set)
    """Encrypted settings; `config` has placeholders for them."""
    environment: bool = False
    """Whether an environment of Pulumi Cloud adds values."""
    lines: dict[str, int] = field(default_factory=dict)
    """The line of each setting."""
    errors: list[str] = field(default_factory=list)
    """Messages about content that the engine refuses, ignores, or reads in a surprising way."""

    def at(self, sentence: str, label: str = "") -> str:
        """Return a message about a setting, after the file, the line and a label."""
        key = sentence.split(" ", 1)[0].removesuffix(":")
        while key and key not in self.lines:
            key = re.sub(r"(^|\.|\[)[^.\[]*$", "", key)
        return self.located(f"{label}{sentence}", self.lines.get(key))

    def located(self, sentence: str, line: int | None) -> str:
        """Return a message after the file and a line."""
        return f"{self.name}:{line}: {sentence}" if line else f"{self.name}: {sentence}"

    def refuse(self, sentence: str, line: int | None = None) -> None:
        """Add an error, with its file and line."""
        self.errors.append(self.located(sentence, line))


@dataclass(frozen=True)
class Checked:
    """The settings of a file."""

    settings: Settings
    warnings: tuple[str, ...]
    """Messages that begin with the file and the line."""
    unknown: frozenset[str] = frozenset()
    """Settings that an environment may set; the required settings among them have placeholders."""


def check_file(path: Path) -> Checked:
    """Check a settings file as the program does. Also refuse keys that the engine ignores.

    Raises:
        SettingsError: each error begins with the file and, if known, the line.
    """
    stack = read_stack_file(path)
    if stack.errors:
        raise SettingsError(stack.errors)
    unknown = set(aliases(Settings)) - set(stack.lines) if stack.environment else set()
    try:
        settings = parse_config(stack.config, encrypted=stack.encrypted, unknown=unknown)
    except SettingsError as error:
        raise SettingsError([stack.at(sentence) for sentence in error.faults]) from None
    warned = [stack.at(sentence, "warning: ") for sentence in warnings(settings, unknown=unknown)]
    return Checked(settings, tuple(warned), frozenset(unknown))


def summary(checked: Checked) -> str:
    """Return a summary of the settings on one line."""
    if checked.unknown:
        return f"ok, except for settings that only `pulumi preview` can check: {', '.join(sorted(checked.unknown))}"
    settings = checked.settings
    count = len(settings.services)
    pods = sum(service.autoscaler.max_replicas for service in settings.services)
    where = f"on the platform of {settings.platform}" if settings.platform else f"in {settings.region}"
    return f"ok, {count} service{'' if count == 1 else 's'} of at most {pods} pods {where}"


def read_stack_file(path: Path) -> StackFile:
    """Read a file. The result is complete only if it has no errors."""
    stack = StackFile(path.name)
    try:
        _read(stack, load(path.read_text("utf-8-sig")))
    except SettingsFileError as error:
        stack.refuse(str(error), error.line)
    except FileNotFoundError:
        files = sorted(file.name.removeprefix("Pulumi.") for file in path.parent.glob("Pulumi.*.yaml"))
        stacks = ", ".join(name.removesuffix(".yaml") for name in files)
        advice = f"choose a stack with a file ({stacks})" if stacks else "create it as in docs/getting-started.md"
        stack.refuse(f"no such file: {advice}.")
    except UnicodeDecodeError:
        stack.refuse("not UTF-8: save the file as UTF-8.")
    except OSError as error:
        stack.refuse(f"can't be read ({error.strerror}): check its path and permissions.")
    return stack


def load(text: str) -> Document:
    """Read YAML as the engine does.

    Raises:
        SettingsFileError: the text is not valid.
    """
    document = Document()
    try:
        node = YAML(typ="safe", pure=True).compose(text)
        document.value = _value(node, (), document) if node else None
    except MarkedYAMLError as error:
        raise _syntax_error(error) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SettingsFileError(f"the character U+{error.character:04X} is not allowed: remove it.", line) from None
    except RecursionError:
        raise SettingsFileError(
            "maps or lists are nested too deep, or an alias contains itself: remove levels or the alias."
        ) from None
    return document


def _value(node: Node, path: Location, document: Document) -> Any:
    document.lines.setdefault(path, _line(node.start_mark))
    if isinstance(node, MappingNode):
        return _map(node, path, document)
    if isinstance(node, SequenceNode):
        return [_value(item, (*path, index), document) for index, item in enumerate(node.value)]
    return _scalar(node, document) if isinstance(node, ScalarNode) else None


def _map(node: MappingNode, path: Location, document: Document) -> dict[str, Any]:
    result: dict[str, Any] = {}
    merged: list[Node] = []
    for key_node, value_node in node.value:
        line = _line(key_node.start_mark)
        if key_node.tag == f"{_STANDARD}merge":
            merged += value_node.value if isinstance(value_node, SequenceNode) else [value_node]
            continue
        key = _key(key_node, path, document)
        if key in result:
            first = document.lines[*path, key]
            raise SettingsFileError(f"{key} is set twice, first in line {first}: remove one of the two.", line)
        document.lines[*path, key] = line
        result[key] = _value(value_node, (*path, key), document)
    for other in merged:
        if not isinstance(other, MappingNode):
            raise SettingsFileError(
                "`<<` merges maps, but this value is not a map: remove the `<<`.", _line(other.start_mark)
            )
        result = {**_map(other, path, document), **result}
    return result


def _key(node: Node, path: Location, document: Document) -> str:
    line = _line(node.start_mark)
    if not isinstance(node, ScalarNode):
        raise SettingsFileError("a key must be text, not a list or a map: remove the `?`, `[` or `{` before it.", line)
    key = _scalar(node, document)
    if not isinstance(key, str) and path in _TEXT_KEYS:
        raise SettingsFileError(f"the key {node.value} is not text: write it in quotes, or remove it.", line)
    return "<nil>" if key is None else str(key).lower() if isinstance(key, bool) else str(key)


def _scalar(node: ScalarNode, document: Document) -> Any:
    text, kind = node.value, str(node.tag).removeprefix(_STANDARD)
    if kind in ("int", "float"):
        digits, value = text.replace("_", ""), number(text)
        if OCTAL.fullmatch(digits) and value != (meant := int(digits)):
            document.octals[_line(node.start_mark)] = (
                f"{text} means {value}, because a number that starts with 0 is octal: write {value}, or {meant} if you "
                "meant that."
            )
        return value
    if kind == "bool":
        return text.lower() == "true"
    if kind == "null":
        return None
    if kind not in ("str", "timestamp", "value", "merge"):
        raise SettingsFileError(f"the tag {node.tag} is not supported: remove it.", _line(node.start_mark))
    return text if node.style else plain_text(text)


def _line(mark: StringMark) -> int:
    return int(mark.line) + 1


def _syntax_error(error: MarkedYAMLError) -> SettingsFileError:
    line = _line(error.problem_mark)
    if "'\\t'" in error.problem:
        return SettingsFileError("a tab is used where YAML allows only spaces: indent with spaces.", line)
    if "another document" in error.problem:
        return SettingsFileError("a second document begins here, which Pulumi ignores: remove the `---`.", line)
    begin = _line(error.context_mark) if error.context else line
    if begin == line:
        return SettingsFileError(f"not valid YAML: {error.problem}.", line)
    # An unclosed bracket or quote may show only at the end of the file.
    return SettingsFileError(f"not valid YAML: {error.context}, {error.problem} in line {line}.", begin)


def _read(stack: StackFile, document: Document) -> None:
    top = {} if document.value is None else document.value
    if not isinstance(top, dict):
        raise SettingsFileError("the file must be a map with the key config.", document.lines[()])
    _refuse_unknown_top_keys(stack, top, document.lines)
    for octal_line, sentence in document.octals.items():
        stack.refuse(sentence, octal_line)
    stack.environment = top.get("environment") is not None
    config, line = top.get("config"), document.lines.get(("config",))
    if isinstance(config, dict):
        for key, value in config.items():
            _read_key(stack, document, key, value)
    elif config is not None:
        stack.refuse(f"config must be a map of keys, such as {PROJECT}:region.", line)
    elif not stack.errors and not stack.environment:
        stack.refuse(f"config is missing: add it, with keys such as {PROJECT}:region.", line)


def _refuse_unknown_top_keys(stack: StackFile, top: Mapping[str, Any], lines: Mapping[Location, int]) -> None:
    for key in top:
        if ":" in key:
            stack.refuse(f"{key} is outside config, where Pulumi ignores it: move it into config.", lines[key,])
        elif key not in TOP_KEYS:
            instead = nearest(key, TOP_KEYS)
            stack.refuse(f"{key} is not a key of a settings file, so Pulumi ignores it: {instead}", lines[key,])


def _read_key(stack: StackFile, document: Document, key: str, value: Any) -> None:
    line, full = document.lines["config", key], full_key(key)
    if full is None:
        stack.refuse(f"{key} is not a valid key: write <namespace>:<name>, such as {PROJECT}:region.", line)
        return
    if full in stack.config:
        # The engine takes either of the two.
        stack.refuse(f"{key} means {full}, which is already set: remove one of the two.", line)
        return
    namespace, name = full.split(":")
    if namespace == PROJECT:
        stack.config[full] = engine_text(_decrypted(value, (name,), stack.encrypted))
        for path, at in document.lines.items():
            if path[:2] == ("config", key):
                stack.lines[key_of((name, *path[2:]))] = at
        return
    stack.config[full] = engine_text(value)
    if difflib.get_close_matches(namespace.lower(), [PROJECT], cutoff=_SAME_PROJECT):
        meant = f"{PROJECT}:{near_one(name, aliases(Settings)) or name}"
        stack.refuse(f"{key} belongs to another project and has no effect here: did you mean {meant}?", line)


def _decrypted(value: Any, path: Location, encrypted: set[str]) -> Any:
    """Return the value with a placeholder for each encrypted value."""
    if isinstance(value, list):
        return [_decrypted(item, (*path, index), encrypted) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if list(value) == ["secure"] and isinstance(value["secure"], str):
        encrypted.add(key_of(path))
        return _ENCRYPTED
    return {key: _decrypted(item, (*path, key), encrypted) for key, item in value.items()}
