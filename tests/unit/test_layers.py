"""Which part may import which: settings, then components; the rehearsal knows the program only by its values."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
OURS = {"adoption", "autoscaling", "bench", "components", "operations", "rehearsal", "verify"}
ALLOWED = {
    # It asks the account by the program's own components.
    "adoption": {"adoption", "operations", "components", "autoscaling", "verify"},
    "autoscaling": {"autoscaling"},
    # `up` ends with the checks that `make verify` makes.
    "components": {"components", "autoscaling", "verify"},
    "operations": {"operations", "components", "autoscaling", "verify"},
    "verify": {"verify", "autoscaling"},
    "rehearsal": {"rehearsal", "autoscaling", "verify"},
    "bench": {"bench", "rehearsal", "autoscaling"},
    "bench/flat": set(),
}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_what_is_below_it(package: str) -> None:
    files = list((CHECKOUT / package).rglob("*.py"))
    assert files
    for path in files:
        assert imports(path) & OURS <= ALLOWED[package], path.relative_to(CHECKOUT)


def test_the_domain_and_the_checks_do_not_know_pulumi() -> None:
    for package in ("autoscaling", "verify"):
        for path in (CHECKOUT / package).rglob("*.py"):
            assert not {name for name in imports(path) if name.startswith("pulumi")}, path.relative_to(CHECKOUT)
