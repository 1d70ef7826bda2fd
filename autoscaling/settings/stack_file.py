"""A stack's file `Pulumi.<stack>.yaml`: what the engine hands to the program of it, and what it passes over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoscaling.settings import engine_yaml
from autoscaling.settings.config_values import PROJECT, engine_text
from autoscaling.settings.engine_yaml import Fault
from autoscaling.settings.model_keys import key_of, within
from autoscaling.settings.wording import nearest

TOP_KEYS = ("config", "environment", "secretsprovider", "encryptedkey", "encryptionsalt")
"""What the engine reads of a stack's file."""

_ENCRYPTED = "(encrypted)"


@dataclass
class StackFile:
    """What stands in a file."""

    name: str
    config: dict[str, str] = field(default_factory=dict)
    """Each key, with its namespace, as the engine hands it to the program."""
    encrypted: set[str] = field(default_factory=set)
    """Settings whose values are secrets, which only the engine can read."""
    environment: bool = False
    """Whether an environment of Pulumi Cloud adds values to those of the file."""
    lines: dict[str, int] = field(default_factory=dict)
    """Where each setting stands."""
    faults: list[Fault] = field(default_factory=list)
    """What the engine refuses, or passes over in silence."""
    doubtful: set[str] = field(default_factory=set)
    """Settings that the faults leave in doubt."""
    readable: bool = False
    """Whether there are keys and values at all."""

    def encrypted_in(self, key: str) -> list[str]:
        """The encrypted settings among those of a key."""
        return sorted(one for one in self.encrypted if within(one, key))

    def line_of(self, sentence: str) -> int | None:
        """The line of the setting with which a sentence begins, or of what is around it."""
        key = sentence.split(" ", 1)[0].removesuffix(":")
        while key and key not in self.lines:
            key = re.sub(r"(^|\.|\[)[^.\[]*$", "", key)
        return self.lines.get(key)


def read_stack_file(path: Path) -> StackFile:
    """Read a file; what is wrong with it is among its faults."""
    stack = StackFile(path.name)
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        stacks = sorted(one.name.split(".", 1)[1].removesuffix(".yaml") for one in path.parent.glob("Pulumi.*.yaml"))
        stacks_there = f"the stacks with a file are {', '.join(stacks)}" if stacks else "no stack has one"
        stack.faults.append(Fault(f"there is no such file: {stacks_there}."))
    except UnicodeDecodeError:
        stack.faults.append(Fault("this is no text in UTF-8: save it as such."))
    except OSError as error:
        stack.faults.append(Fault(f"it can't be read ({error.strerror})."))
    else:
        document = engine_yaml.load(text)
        stack.faults += document.faults
        stack.readable = document.readable and _read(stack, document)
    return stack


def _read(stack: StackFile, document: engine_yaml.Document) -> bool:
    """Fill the stack; whether it has a configuration."""
    top = {} if document.value is None else document.value
    if not isinstance(top, dict):
        stack.faults.append(Fault("a map is expected, with the key config.", document.lines[()]))
        return False
    misplaced = list(_top_keys(top, document.lines))
    stack.faults += misplaced
    stack.environment = top.get("environment") is not None
    config, line = top.get("config"), document.lines.get(("config",))
    if isinstance(config, dict) or (config is None and stack.environment):
        for key, value in (config or {}).items():
            _read_key(stack, document, key, value)
        return True
    if config is not None or not misplaced:
        what = "is missing" if config is None else "is no map"
        stack.faults.append(Fault(f"config {what}: set it, with keys such as {PROJECT}:region.", line))
    return False


def _top_keys(top: Mapping[str, Any], lines: Mapping[engine_yaml.Path, int]) -> Iterator[Fault]:
    for key in top:
        if key in TOP_KEYS:
            continue
        if ":" in key:
            reason = "stands beside config, where the engine passes over it: move it into config."
        else:
            reason = f"is no key of a stack's file, and the engine passes over it: {nearest(key, TOP_KEYS)}"
        yield Fault(f"{key} {reason}", lines[key,])


def _read_key(stack: StackFile, document: engine_yaml.Document, key: str, value: Any) -> None:
    line = document.lines["config", key]
    full = _namespaced(key)
    if full is None:
        stack.faults.append(Fault(f"{key} is no key: write <namespace>:<name>, such as {PROJECT}:region.", line))
        return
    if full in stack.config:
        # The engine takes one of the two, and not always the same.
        stack.faults.append(Fault(f"{key} is {full}, which is set already: remove one of the two.", line))
        stack.doubtful.add(full.removeprefix(f"{PROJECT}:"))
        return
    own = full.startswith(f"{PROJECT}:")
    name = full.removeprefix(f"{PROJECT}:")
    stack.config[full] = engine_text(_decrypted(value, (name,), stack.encrypted) if own else value)
    stack.lines[full] = line
    if own:
        for path, at in document.lines.items():
            if path[:2] == ("config", key):
                stack.lines[key_of((name, *path[2:]))] = at
        stack.doubtful |= {
            key_of((name, *fault.path[2:])) for fault in document.faults if fault.path[:2] == ("config", key)
        }


def _namespaced(key: str) -> str | None:
    """As the engine has it: a key without a namespace is the project's."""
    parts = key.split(":")
    if len(parts) == 3 and parts[1] == "config":
        parts.pop(1)
    return f"{PROJECT}:{key}" if len(parts) == 1 else ":".join(parts) if len(parts) == 2 else None


def _decrypted(value: Any, path: engine_yaml.Path, encrypted: set[str]) -> Any:
    """The value with a stand-in for each secret."""
    if isinstance(value, list):
        return [_decrypted(item, (*path, index), encrypted) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if list(value) == ["secure"] and isinstance(value["secure"], str):
        encrypted.add(key_of(path))
        return _ENCRYPTED
    return {key: _decrypted(item, (*path, key), encrypted) for key, item in value.items()}
