"""The released Kubernetes provider: from the user's plugin folder, or by `pulumi plugin install`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from rehearsal.toolchain.children import run_child
from rehearsal.toolchain.released import Found, NotUsableError, check_usage

PROVIDER = "pulumi-resource-kubernetes"
HOME_VARIABLE = "ACKGPU_USER_PULUMI_HOME"
"""The user's PULUMI_HOME, in a process whose PULUMI_HOME is the rehearsal cloud's."""

_INSTALL_SECONDS = 120
"""Time limit of an installation: the archive has 50 MB."""


def user_pulumi_home() -> Path:
    """Return the folder in which the user's `pulumi` keeps plugins."""
    chosen = os.environ.get(HOME_VARIABLE, os.environ.get("PULUMI_HOME"))
    return Path(chosen) if chosen else Path.home() / ".pulumi"


def installed_plugin(pulumi_home: Path, version: str, home: Path, report: Callable[[str], None]) -> Found | None:
    """Return the provider in a plugin folder, if it has this version and runs."""
    folder = pulumi_home / "plugins" / f"resource-kubernetes-v{version}"
    program = folder / PROVIDER
    # The engine leaves this file beside a plugin while it installs it.
    if not program.is_file() or folder.with_name(f"{folder.name}.partial").exists():
        return None
    try:
        check_usage(program, home)
    except NotUsableError as error:
        report(f"{program} is not used: {error}")
        return None
    return Found({PROVIDER: program}, f"{version} from {folder}")


def install_plugin(pulumi: Path, version: str, home: Path, report: Callable[[str], None]) -> Found | None:
    """Install the provider into an empty home with `pulumi plugin install`; return None if that does not work."""
    environment = {
        **os.environ,
        "HOME": str(home),
        "PULUMI_HOME": str(home),
        "TMPDIR": str(home),
        "PULUMI_SKIP_UPDATE_CHECK": "1",
    }
    command: list[str | Path] = [
        pulumi,
        "plugin",
        "install",
        "resource",
        "kubernetes",
        version,
        "--exact",
        "--non-interactive",
    ]
    reason = "did not work here"
    try:
        run_child(command, cwd=home, environment=environment, seconds=_INSTALL_SECONDS)
        if found := installed_plugin(home, version, home, report):
            return Found(found.files, f"{version} by `pulumi plugin install`")
    except subprocess.TimeoutExpired:
        reason = f"did not finish within {_INSTALL_SECONDS} s"
    except OSError as error:
        reason = f"does not run ({error.strerror})"
    report(f"`pulumi plugin install` {reason}; the provider is built instead")
    return None
