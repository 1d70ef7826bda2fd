"""Values in a settings file and their form in the program; `tests/engine` compares them with the real engine."""

from __future__ import annotations

from typing import Any

INSIDE: dict[str, Any] = {
    "3": 3,
    "3.0": 3,
    "3.5": 3.5,
    ".5": 0.5,
    "-0": 0,
    "+7": 7,
    "020": 16,
    "08": 8,
    "0o20": 16,
    "0x1F": 31,
    "0b101": 5,
    "1_000": 1000,
    "1e3": 1000,
    "1e6": 1000000,
    "1e30": 1e30,
    "1.5e-7": 1.5e-7,
    '"3"': "3",
    "!!str 3": "3",
    '!!int "7"': 7,
    "1:30": "1:30",
    "true": True,
    "True": True,
    "yes": "yes",
    "off": "off",
    "null": None,
    "~": None,
    "": None,
    "=": "=",
    "2026-11-30": "2026-11-30 00:00:00 +0000 UTC",
    "2026-11-30T08:15:00Z": "2026-11-30 08:15:00 +0000 UTC",
    "2026-11-30T08:15:00+08:00": "2026-11-30 08:15:00 +0800 +0800",
    "2026-11-30 08:15:00.50": "2026-11-30 08:15:00.5 +0000 UTC",
    "2026-99-99": "2026-99-99",
    '"2026-11-30"': "2026-11-30",
    "{1: a, true: b, null: c, yes: d}": {"1": "a", "true": "b", "<nil>": "c", "yes": "d"},
    "[1, ~, [x]]": [1, None, ["x"]],
}
"""YAML of a value inside a map, and the value that the program receives."""

AT_TOP: dict[str, str] = {
    "3": "3",
    "3.0": "3",
    "020": "16",
    "1e3": "1000",
    '"3"': "3",
    "true": "true",
    "yes": "yes",
    "": "",
    "null": "",
    "2026-11-30": "2026-11-30 00:00:00 +0000 UTC",
    '"[1, 2]"': "[1, 2]",
    "[]": "[]",
    "{}": "{}",
}
"""YAML of a top-level value of `config`, and the text that the program receives."""


def stack_file() -> str:
    """Return a settings file with all values."""
    inside = "\n".join(f"    inside{index}: {text}" for index, text in enumerate(INSIDE))
    at_top = "\n".join(f"  ackgpu:top{index}: {text}" for index, text in enumerate(AT_TOP))
    return (
        f"config:\n  ackgpu:inside:\n{inside}\n{at_top}\n  short: x\n  ackgpu:config:long: y\n  other:key: {{a: 1}}\n"
    )


def values_in_program() -> dict[str, Any]:
    """Return the value that the program receives for each key: text, or the parsed map."""
    return {
        "ackgpu:inside": {f"inside{index}": value for index, value in enumerate(INSIDE.values())},
        **{f"ackgpu:top{index}": text for index, text in enumerate(AT_TOP.values())},
        "ackgpu:short": "x",
        "ackgpu:long": "y",
        "other:key": '{"a":1}',
    }
