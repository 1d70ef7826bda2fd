"""What the engine makes of values in a stack's file; `tests/engine` holds it against the real one."""

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
"""As it is written inside a map, and the value that reaches the program."""

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
"""As it is written as the value of a key of `config`, and the text that reaches the program."""


def stack_file() -> str:
    """A stack's file with all of them."""
    inside = "\n".join(f"    inside{index}: {written}" for index, written in enumerate(INSIDE))
    at_top = "\n".join(f"  ackgpu:top{index}: {written}" for index, written in enumerate(AT_TOP))
    return (
        f"config:\n  ackgpu:inside:\n{inside}\n{at_top}\n  short: x\n  ackgpu:config:long: y\n  other:key: {{a: 1}}\n"
    )


def as_the_program_gets_them() -> dict[str, Any]:
    """Key to text; for the map, to its value."""
    return {
        "ackgpu:inside": {f"inside{index}": value for index, value in enumerate(INSIDE.values())},
        **{f"ackgpu:top{index}": text for index, text in enumerate(AT_TOP.values())},
        "ackgpu:short": "x",
        "ackgpu:long": "y",
        "other:key": '{"a":1}',
    }
