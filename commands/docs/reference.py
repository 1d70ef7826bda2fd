"""Generates what `make docs` writes: tables in docs/, keys in Pulumi.yaml, and the schema of stack files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from autoscaling.ack.card_modes import CARD_MODES
from autoscaling.metrics.adapter_rules import RuleSet
from autoscaling.metrics.catalogue import GpuMetric, catalogue
from autoscaling.settings import Settings
from autoscaling.settings.engine_config import PROJECT
from autoscaling.settings.errors import aliases, models, place
from autoscaling.settings.wording import limits
from commands import CHECKOUT
from commands.docs.stack_schema import STACK_SCHEMA, stack_schema_text

_LONGEST_LIST = 4
"""A list of allowed values longer than this is left out of the tables; the error message lists the values."""


def documents() -> dict[Path, str]:
    """Return the text of each file that is written from the models, in part or as a whole."""
    project = CHECKOUT / "Pulumi.yaml"
    documents = {
        project: replaced(project.read_text(), "# keys: written by make docs", config_keys(), "# end of keys"),
        STACK_SCHEMA: stack_schema_text(),
    }
    for name, tables in (("settings", settings_tables()), ("metrics", metrics_table())):
        page = CHECKOUT / "docs" / f"{name}.md"
        begin, end = f"<!-- {name}: written by make docs -->", f"<!-- end of {name} -->"
        documents[page] = replaced(page.read_text(), begin, tables, end)
    return documents


def settings_tables() -> str:
    """Return every setting as a row of Markdown: a table for each section, and one for keys without a section."""
    sections: dict[str, list[str]] = {"Other keys": []}
    for field in Settings.model_fields.values():
        rows = list(_settings_of(field, ""))
        if next(models(field.annotation), None):
            sections[field.alias or ""] = rows
        else:
            sections["Other keys"] += rows
    head = "| key | meaning | allowed | default |\n|---|---|---|---|"
    return "\n\n".join(f"## {name}\n\n" + "\n".join([head, *rows]) for name, rows in sections.items())


def metrics_table() -> str:
    """Return every metric of the catalogue as a row of Markdown."""
    rows = [
        "| metric | meaning | unit | default aggregation per pod | exporter | `cardMode` | with the guide's rules |",
        "|---|---|---|---|---|---|---|",
    ]
    for metric in catalogue().metrics:
        cells = [
            f"`{metric.name}`",
            metric.meaning,
            metric.unit,
            metric.aggregation,
            _exporter(metric),
            ", ".join(metric.card_modes) if len(metric.card_modes) < len(CARD_MODES) else "any",
            _with_the_guides_rules(metric),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def config_keys() -> str:
    """Return the keys under `config` of Pulumi.yaml."""
    keys = {}
    for field in Settings.model_fields.values():
        description = _description(field)
        if inner := next(models(field.annotation), None):
            description += f". Keys: {', '.join(aliases(inner))}"
        key: dict[str, Any] = {"description": description}
        # Without a default, the engine asks for a value before the program can report all errors.
        key["default"] = _empty(field) if field.is_required() or field.default is None else _engine_default(field)
        keys[f"{PROJECT}:{field.alias}"] = key
    text = yaml.safe_dump(keys, allow_unicode=True, sort_keys=False, width=1000)
    return "\n".join(f"  {line}" for line in text.splitlines())


def _empty(field: FieldInfo) -> Any:
    return {} if next(models(field.annotation), None) and get_origin(field.annotation) is not list else ""


def _engine_default(field: FieldInfo) -> Any:
    return {} if isinstance(field.default, BaseModel) else field.default


def _settings(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for field in model.model_fields.values():
        yield from _settings_of(field, prefix)


def _settings_of(field: FieldInfo, prefix: str) -> Iterator[str]:
    key = f"{prefix}{field.alias}"
    inner = next(models(field.annotation), None)
    # A map that is required or has defaults needs no row of its own: the rows of its keys describe it.
    if inner is None or not (field.is_required() or isinstance(field.default, BaseModel)):
        yield f"| `{key}` | {_description(field)} | {_allowed(field)} | {_default(field)} |"
    if inner:
        yield from _settings(inner, f"{key}{_any_entry(field)}.")


def _any_entry(field: FieldInfo) -> str:
    kind = get_origin(field.annotation)
    return "[]" if kind is list else ".*" if kind is dict else ""


def _description(field: FieldInfo) -> str:
    inner = next(models(field.annotation), None)
    text = field.description or (inner.__doc__ if inner else None)
    if not text:
        raise ValueError(f"{field.alias} of {Settings.__module__} needs a docstring.")
    return " ".join(text.split()).rstrip(".")


def _allowed(field: FieldInfo) -> str:
    kinds = set(_kinds(field.annotation))
    choices = [str(choice) for choice in kinds if isinstance(choice, str)]
    if choices:
        ordered = [choice for choice in _kinds(field.annotation) if isinstance(choice, str)]
        return ", ".join(f"`{choice}`" for choice in ordered) if len(choices) <= _LONGEST_LIST else ""
    if bool in kinds:
        return "`true`, `false`"
    metadata = place(field.annotation, field.metadata).metadata
    return limits(metadata).removeprefix("from ").removeprefix("of ") if kinds & {int, Decimal} else ""


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the types, or the literal values, in an annotation."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif hasattr(annotation, "__metadata__"):
        yield from _kinds(annotation.__origin__)
    elif arguments := get_args(annotation):
        for argument in arguments:
            yield from _kinds(argument)
    elif annotation is not type(None):
        yield annotation


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default in (None, ""):
        return ""
    value = field.default
    if isinstance(value, list):
        plain = [
            item.model_dump(by_alias=True, exclude_unset=True) if isinstance(item, BaseModel) else item
            for item in value
        ]
        value = yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=1000).strip()
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _exporter(metric: GpuMetric) -> str:
    if metric.level == "engine":
        return "the engine"
    return "ACK's, dcgm-exporter" if "upstream" in metric.exporters else "ACK's"


def _with_the_guides_rules(metric: GpuMetric) -> str:
    exposed = RuleSet(preset="seed").find(metric.name)
    if exposed is None:
        return "not exposed"
    if "pod" not in exposed.resources:
        return "for nodes only; no HPA can use it"
    low, high = exposed.range
    return "the same" if exposed.range == metric.range else f"{low:g} to {high:g}"


def replaced(text: str, begin: str, body: str, end: str) -> str:
    """Return the text with a new body between two marker lines.

    Raises:
        ValueError: the text does not contain the pair of lines exactly once.
    """
    between = re.compile(rf"(?<={re.escape(begin)}\n).*?(?=^{re.escape(end)}$)", re.DOTALL | re.MULTILINE)
    result, found = between.subn(lambda _: f"{body}\n", text)
    if found != 1:
        raise ValueError(f"expected exactly one pair of lines {begin!r} and {end!r}, found {found}.")
    return result


def main() -> None:
    """Write each file whose text differs."""
    for path, text in documents().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"{path.name}: written")


if __name__ == "__main__":
    main()
