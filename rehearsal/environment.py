"""The environment that limits `pulumi` and `kubectl` to the rehearsal cloud."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rehearsal.layout import PASSPHRASE, STACK, Layout
from rehearsal.processes import TAG
from rehearsal.toolchain.plugin import HOME_VARIABLE, user_pulumi_home

_LOOPBACK = "localhost,127.0.0.1,127.0.0.0/8"


def engine_variables(layout: Layout) -> dict[str, str]:
    """Return the variables that point the engine, the providers and kubectl at the cloud of this checkout."""
    return {
        "PATH": os.pathsep.join([_own_commands(layout), os.environ.get("PATH", os.defpath)]),
        # In a container the user may have no account, and the engine then requires USER.
        "USER": os.environ.get("USER") or str(os.getuid()),
        "PULUMI_HOME": str(layout.pulumi_home),
        "PULUMI_BACKEND_URL": f"file://{layout.backend}",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_STACK": STACK,
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_PYTHON_CMD": sys.executable,
        "KUBECONFIG": str(layout.kubeconfig),
        "KUBECACHEDIR": str(layout.home / "kubectl"),
        **_without_proxy(),
        # The Kubernetes provider leaves a kubeconfig with a private key in the temporary folder.
        "TMPDIR": str(layout.temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
        # The language host runs pip, whose version check writes into the user's home.
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _own_commands(layout: Layout) -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), str(layout.commands)])


def own_variables(layout: Layout) -> dict[str, str]:
    """Return the variables of the rehearsal's own process and its children."""
    return {
        TAG: str(layout.cloud),
        HOME_VARIABLE: str(user_pulumi_home()),
        "PULUMI_HOME": str(layout.pulumi_home),
        **_without_proxy(),
    }


def _without_proxy() -> dict[str, str]:
    """Return variables that exclude loopback from the user's proxies."""
    names = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if not names.endswith(_LOOPBACK):
        names = ",".join(filter(None, (names, _LOOPBACK)))
    return {"NO_PROXY": names, "no_proxy": names}


@contextlib.contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Make this process create temporary files in a folder, because the Kubernetes client writes its key to one."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def link_commands(layout: Layout, tools: Path) -> None:
    """Create the folder of commands that is added to PATH."""
    layout.commands.mkdir()
    for name in ("pulumi", "kubectl", "hey"):
        (layout.commands / name).symlink_to(tools / name)


def write_environment_file(layout: Layout) -> None:
    """Write the variables to a file for `source`."""
    values = {name: shlex.quote(value) for name, value in engine_variables(layout).items()}
    # The terminal that reads the file keeps its own PATH.
    values["PATH"] = f'{shlex.quote(_own_commands(layout))}:"$PATH"'
    lines = [f"export {name}={value}" for name, value in values.items()]
    layout.environment_file.write_text("\n".join(lines) + "\n")
