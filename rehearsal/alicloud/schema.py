"""The input checks of the Alibaba Cloud provider, taken from its schema (`schema.json`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""The engine's placeholder for a value that a preview does not know."""

_ENGINE_KEYS = ("__defaults",)


@dataclass(frozen=True)
class Failure:
    """A refused input: the property as the user writes it, and the provider's reason."""

    property: str
    reason: str


@cache
def _resources() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("schema.json").read_text()
    resources: dict[str, dict[str, Any]] = json.loads(text)["resources"]
    return resources


def check(token: str, inputs: dict[str, Any]) -> list[Failure]:
    """Return the inputs that the provider refuses; an empty list if it accepts all.

    Raises:
        KeyError: the type is not in the schema.
    """
    return list(_check_block(_resources()[token], inputs, "", ""))


def normalized(token: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return accepted inputs in the provider's normal form, in which equal inputs compare equal.

    A list with a single block becomes the block if the schema says so. Strings and numbers get the schema's type. Sets
    are sorted.

    Raises:
        KeyError: the type is not in the schema.
    """
    return _normalized_block(_resources()[token], inputs)


def _normalized_block(properties: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    specs = {spec["pulumi_name"]: spec for spec in properties.values()}
    return {key: _normalized(specs.get(key, {}), value) for key, value in inputs.items()}


def _normalized(spec: dict[str, Any], value: Any) -> Any:
    if value == UNKNOWN or value is None:
        return value
    if "block" in spec:
        if spec.get("flattened") and isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, dict):
            return _normalized_block(spec["block"], value)
    if isinstance(value, list):
        elem = {"block": spec["block"]} if "block" in spec else spec.get("elem", {})
        items = [_normalized(elem, item) for item in value]
        return sorted(items, key=json.dumps) if spec.get("type") == "set" else items
    if spec.get("type") == "int":
        return int(float(value))
    if spec.get("type") == "string" and isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else f"{value:g}"
    return value


def replacement_properties(token: str, changed: list[str]) -> list[str]:
    """Return the changed properties that require a replacement of the resource."""
    properties = {spec["pulumi_name"]: spec for spec in _resources()[token].values()}
    return [name for name in changed if properties.get(name, {}).get("force_new")]


def _check_block(
    properties: dict[str, Any], inputs: dict[str, Any], path: str, attribute_path: str
) -> Iterator[Failure]:
    by_name = {spec["pulumi_name"]: name for name, spec in properties.items()}
    given = {by_name[key] for key in inputs if key in by_name}
    reported: set[str] = set()
    for key in inputs:
        if key not in by_name and key not in _ENGINE_KEYS:
            yield Failure(f"{path}{key}", "Invalid or unknown key")
    for name, spec in properties.items():
        key = path + spec["pulumi_name"]
        yield from _check_presence(name, spec, key, attribute_path + name, given)
        group = spec.get("exactly_one_of", [])
        # The schema repeats the rule for each member of the group; the real provider reports it once.
        if group and not given.intersection(group) and name not in reported:
            reported.update(group)
            listed = ",".join(sorted(group))
            yield Failure(key, f'Invalid combination of arguments. "{name}": one of `{listed}` must be specified.')
        if name in given:
            value = inputs[spec["pulumi_name"]]
            yield from _check_value(spec, value, key, attribute_path + name)


def _check_presence(name: str, spec: dict[str, Any], key: str, attribute: str, given: set[str]) -> Iterator[Failure]:
    if spec.get("required") and name not in given:
        yield Failure(
            key,
            f'Missing required argument. The argument "{attribute}" is required, but no definition was found.',
        )
    group = spec.get("exactly_one_of", [])
    chosen = sorted(given.intersection(group))
    listed = ",".join(sorted(group))
    if name in given and len(chosen) > 1:
        reason = f"only one of `{listed}` can be specified, but `{','.join(chosen)}` were specified."
        yield Failure(key, f'Invalid combination of arguments. "{name}": {reason}')
    if name in given:
        for other in spec.get("conflicts_with", []):
            if other in given:
                yield Failure(key, f'Conflicting configuration arguments. "{name}": conflicts with {other}.')
        if spec.get("computed") and not spec.get("optional"):
            yield Failure(key, f'Value for unconfigurable attribute. Can\'t configure a value for "{name}".')


def _check_value(spec: dict[str, Any], value: Any, key: str, attribute: str) -> Iterator[Failure]:
    if value == UNKNOWN or value is None:
        return
    if "block" in spec:
        blocks = value if isinstance(value, list) else [value]
        flattened = spec.get("flattened")
        for index, block in enumerate(blocks):
            inner = key if flattened else f"{key}[{index}]"
            if isinstance(block, dict):
                yield from _check_block(spec["block"], block, f"{inner}.", f"{attribute}.{index}.")
        return
    if isinstance(value, list):
        limit = spec.get("max_items")
        if limit and len(value) > limit:
            yield Failure(
                key,
                f"Too many list items. Attribute {attribute} supports {limit} item maximum, "
                f"but config has {len(value)} declared.",
            )
            return
        for index, item in enumerate(value):
            yield from _check_value(spec.get("elem", {}), item, f"{key}[{index}]", f"{attribute}.{index}")
        return
    yield from _check_scalar(spec, value, key, attribute)


def _check_scalar(spec: dict[str, Any], value: Any, key: str, attribute: str) -> Iterator[Failure]:
    if spec.get("type") == "int" and not re.fullmatch(r"-?\d+(\.0*)?", str(value)):
        yield Failure(key, f'{attribute}: strconv.ParseInt: parsing "{value}": invalid syntax')
        return
    allowed = [str(option).strip('"') for option in spec.get("allowed_values", [])]
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if allowed and text not in allowed:
        yield Failure(key, f"expected {attribute} to be one of [{' '.join(allowed)}], got {text}")
    if "range" in spec:
        low, high = (int(bound) for bound in spec["range"])
        is_text = spec.get("type") == "string"
        size = len(value) if is_text else float(value)
        if not low <= size <= high:
            what = f"length of {attribute}" if is_text else attribute
            yield Failure(key, f"expected {what} to be in the range ({low} - {high}), got {text}")
    # The schema lists a rejection for each value that was tried; report only the first.
    prefixes = [re.search(r"should start with '([^']+)'", rejection) for rejection in spec.get("other_rejections", [])]
    prefix = next((match[1] for match in prefixes if match), "")
    if not text.startswith(prefix):
        yield Failure(key, f"invalid value for {attribute} (should start with '{prefix}'.)")
