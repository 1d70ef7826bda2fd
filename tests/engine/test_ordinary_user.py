"""A rehearsal for any user: no root, no network, awkward paths, two checkouts at once, nothing written elsewhere.

Both run in `sandbox.py`, where every folder but the checkouts and the homes can only be read, and empty folders
stand in for the machine's temporary ones.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from rehearsal.layout import CHECKOUT
from tests.engine.conftest import Rehearsal, SideBySide


def test_both_checkouts_rehearse_at_the_same_time(side_by_side: SideBySide) -> None:
    for user in side_by_side.users:
        output = user.output.read_text()
        assert "== all steps passed" in output, output
        result = json.loads((user.layout.output / "result.json").read_text())
        assert all(step["ok"] for step in result["steps"])
        assert result["leftovers"] == []
    assert side_by_side.exit_code == 0


@pytest.mark.parametrize("number", [0, 1])
def test_a_home_gets_nothing_but_the_cache_folder(side_by_side: SideBySide, number: int) -> None:
    user = side_by_side.users[number]
    assert (user.cache / "matplotlib").is_dir(), "what is searched is the home that was used"
    written = [
        path for path in user.home.rglob("*") if not (path.is_relative_to(user.cache) or path in user.cache.parents)
    ]
    assert written == []


def test_the_machines_temporary_folders_get_nothing(side_by_side: SideBySide) -> None:
    # Where this checkout lies below one of them, the sandbox has made the folders that lead there.
    for place, folder in side_by_side.system.items():
        written = [Path(place) / path.relative_to(folder) for path in folder.rglob("*")]
        assert [path for path in written if path != CHECKOUT and path not in CHECKOUT.parents] == []


def test_by_hand_too_a_home_gets_nothing(rehearsal: Rehearsal, tmp_path: Path) -> None:
    shell = subprocess.run(
        ["sh", "-ec", '. "$1"; pulumi preview; kubectl get nodes', "sh", rehearsal.layout.environment_file],
        cwd=rehearsal.layout.checkout,
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shell.returncode == 0, shell.stdout + shell.stderr
    assert "cn-hangzhou.10.0.0.1" in shell.stdout
    assert list(tmp_path.rglob("*")) == []
