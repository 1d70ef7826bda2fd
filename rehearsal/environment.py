"""The environment in which `pulumi` and `kubectl` work on the rehearsal cloud and touch nothing else."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from rehearsal.layout import PASSPHRASE, STACK, Layout


def engine_variables(layout: Layout) -> dict[str, str]:
    """The variables that point the engine, the providers and kubectl at the cloud of this checkout."""
    python = Path(sys.executable).parent
    return {
        "PATH": os.pathsep.join([str(python), str(layout.commands), os.environ.get("PATH", os.defpath)]),
        "PULUMI_HOME": str(layout.pulumi_home),
        "PULUMI_BACKEND_URL": f"file://{layout.backend}",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_STACK": STACK,
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_PYTHON_CMD": sys.executable,
        "KUBECONFIG": str(layout.kubeconfig),
        # The Kubernetes provider leaves a kubeconfig with its key in the temporary folder.
        "TMPDIR": str(layout.temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def link_commands(layout: Layout, tools: Path) -> None:
    """Make the folder that PATH gets."""
    layout.commands.mkdir()
    for name in ("pulumi", "kubectl", "hey"):
        (layout.commands / name).symlink_to(tools / name)


def write_environment_file(layout: Layout) -> None:
    """Write the variables as a file for `source`."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in engine_variables(layout).items()]
    layout.environment_file.write_text("\n".join(lines) + "\n")
