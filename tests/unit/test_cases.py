"""Every fault of docs/cases.md has a test that carries its id."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = re.findall(r"^\| ([A-G]\d+) \|", (TESTS.parent / "docs" / "cases.md").read_text(), re.M)


def test_each_case_has_a_test_and_each_id_is_a_case() -> None:
    files = [path for suffix in ("py", "yaml") for path in TESTS.rglob(f"*.{suffix}") if path != Path(__file__)]
    marked = {case for path in files for case in re.findall(r'(?:\bcase\("|\bcase: )([A-G]\d+)\b', path.read_text())}
    assert len(CASES) == 29
    assert marked == set(CASES)
