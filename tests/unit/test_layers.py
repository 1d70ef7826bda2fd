"""Allowed imports between packages."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
OURS = {"autoscaling", "bench", "commands", "components", "live", "program", "rehearsal"}
ALLOWED = {
    "autoscaling": {"autoscaling"},
    "live": {"live", "autoscaling"},
    "components": {"components", "live", "autoscaling"},
    "program": {"program", "components", "live", "autoscaling"},
    "commands": {"commands", "program", "components", "live", "autoscaling", "rehearsal"},
    "rehearsal": {"rehearsal", "live", "autoscaling"},
    "bench": {"bench", "program", "rehearsal", "autoscaling"},
    "bench/flat": set(),
}

INSIDE_AUTOSCALING = {
    "ack": {"ack"},
    "hpa": {"hpa"},
    "metrics": {"metrics", "ack"},
    "settings": {"settings", "metrics", "hpa", "ack", "quantity"},
}


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def imports(path: Path) -> set[str]:
    return {module.split(".")[0] for module in imported_modules(path)}


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_packages_import_only_lower_packages(package: str) -> None:
    files = list((CHECKOUT / package).rglob("*.py"))
    assert files
    for path in files:
        assert imports(path) & OURS <= ALLOWED[package], path.relative_to(CHECKOUT)


@pytest.mark.parametrize("subpackage", sorted(INSIDE_AUTOSCALING))
def test_subpackages_of_autoscaling_import_only_lower_subpackages(subpackage: str) -> None:
    files = list((CHECKOUT / "autoscaling" / subpackage).rglob("*.py"))
    assert files
    for path in files:
        modules = {module.split(".")[1] for module in imported_modules(path) if module.startswith("autoscaling.")}
        assert modules <= INSIDE_AUTOSCALING[subpackage], path.relative_to(CHECKOUT)


def test_components_do_not_import_settings() -> None:
    for path in (CHECKOUT / "components").rglob("*.py"):
        found = {module for module in imported_modules(path) if module.startswith("autoscaling.settings")}
        assert not found, path.relative_to(CHECKOUT)


def test_autoscaling_and_the_cluster_client_do_not_import_pulumi() -> None:
    """In `live`, only the modules that use the engine import it."""
    with_engine = {"adapter_changes.py", "api_endpoint.py", "existing_network.py", "preflight.py"}
    for package in ("autoscaling", "live"):
        for path in (CHECKOUT / package).rglob("*.py"):
            if path.parent.name == "live" and path.name in with_engine:
                continue
            assert not {name for name in imports(path) if name.startswith("pulumi")}, path.relative_to(CHECKOUT)
