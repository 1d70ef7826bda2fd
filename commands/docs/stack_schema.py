"""The JSON Schema of a stack's file, which lets editors complete and check it.

The schema comes from the settings model and accepts everything that the program accepts. A schema can't check one
setting against another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from autoscaling.settings import Settings
from autoscaling.settings.engine_config import PROJECT
from autoscaling.settings.field_types import MEMORY
from autoscaling.settings.platform_stack import PLATFORM_KEYS
from commands import CHECKOUT

_ENCRYPTED = {
    "type": "object",
    "description": "An encrypted value, written by `pulumi config set --secret`.",
    "properties": {"secure": {"type": "string"}},
    "required": ["secure"],
    "additionalProperties": False,
}
_REFERENCE = {"$ref": "#/$defs/Encrypted"}
_CONSTRAINTS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_NOTES = ("title", "examples", "decimal_places", "max_digits")
"""Keys that editors do not use."""


STACK_SCHEMA = CHECKOUT / "autoscaling" / "settings" / "stack.schema.json"


def stack_schema_text() -> str:
    """Return the text of the schema's file."""
    return json.dumps(stack_schema(), indent=2, ensure_ascii=False) + "\n"


def stack_schema() -> dict[str, Any]:
    """Return the schema in draft 7, which editors support best."""
    model = _converted(Settings.model_json_schema(schema_generator=_Generator))
    # The other credentials must be encrypted.
    model["$defs"]["PrometheusAuth"]["properties"]["accessKeyId"]["anyOf"].append(_REFERENCE)
    settings: dict[str, Any] = model["properties"]
    required: list[str] = model["required"]
    has_own_platform = {"allOf": [_has(key) for key in required]}
    of_another = {"allOf": [_has(key) for key in required if key not in PLATFORM_KEYS]}
    has_required = {"if": _has("platform"), "then": of_another, "else": has_own_platform}
    config = {
        "type": "object",
        "description": f"The stack's configuration. The settings of this program begin with {PROJECT}:.",
        "properties": {f"{PROJECT}:{key}": schema for key, schema in settings.items()},
        "patternProperties": {
            # The engine adds the project's namespace to a key without one.
            **{f"^{key}$": {"$ref": f"#/properties/config/properties/{PROJECT}:{key}"} for key in settings},
            rf"^(?!{PROJECT}:)[^:]+:[^:]+$": {},
        },
        "additionalProperties": False,
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Stack file",
        "description": "Pulumi.<stack>.yaml",
        "type": "object",
        "properties": {
            "config": config,
            "environment": {"description": "Environments of Pulumi Cloud that add values to `config`."},
            "secretsprovider": {
                "type": "string",
                "description": "The stack's secrets provider: passphrase, or the URL of a key in a cloud KMS.",
            },
            "encryptedkey": {"type": "string", "description": "The encrypted key for the secrets, written by Pulumi."},
            "encryptionsalt": {"type": "string", "description": "The salt of the passphrase, written by Pulumi."},
        },
        "additionalProperties": False,
        "if": {"required": ["environment"]},
        "else": {"required": ["config"], "properties": {"config": has_required}},
        "$defs": {**model["$defs"], "Encrypted": _ENCRYPTED},
    }


class _Generator(GenerateJsonSchema):
    def int_schema(self, schema: core_schema.IntSchema) -> dict[str, Any]:
        # The engine may write it in quotes.
        return {**super().int_schema(schema), "type": ["integer", "string"], "pattern": "^[0-9]+$"}

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> dict[str, Any]:
        return {"type": ["number", "string"], "pattern": rf"^([0-9]+(\.[0-9]+)?|{MEMORY})$"}


def _has(key: str) -> dict[str, Any]:
    return {"anyOf": [{"required": [f"{PROJECT}:{key}"]}, {"required": [key]}]}


def _converted(schema: Any) -> Any:
    """Convert Pydantic's schema to JSON Schema: rename its constraints and drop the keys that editors ignore."""
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("writeOnly"):
        # A secret must not be in plain text.
        return _REFERENCE
    result: dict[str, Any] = {
        str(_CONSTRAINTS.get(key, key)): value for key, value in schema.items() if key not in _NOTES
    }
    for key, value in result.items():
        if key in ("properties", "patternProperties", "$defs"):
            result[key] = {name: _converted(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties"):
            result[key] = _converted(value)
        elif key in ("anyOf", "oneOf"):
            result[key] = [_converted(alternative) for alternative in value]
        elif key == "description":
            result[key] = " ".join(value.split())
    if "patternProperties" in result:
        result["additionalProperties"] = False
    return result
