"""The version of the Helm chart in the settings."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import yaml

_VERSION_IN_URL = re.compile(r"-v?(\d+\.\d+\.\d+[^/?#]*)\.tgz$")


def chart_version(chart: str) -> str | None:
    """Return the version of a chart, or None if only a download would show it or the file does not exist.

    Args:
        chart: the URL of a chart, or the path of a folder or an archive.
    """
    if "://" in chart:
        found = _VERSION_IN_URL.search(chart)
        return found[1] if found else None
    path = Path(chart)
    try:
        if path.is_dir():
            return _version((path / "Chart.yaml").read_bytes())
        with tarfile.open(path) as archive:
            names = [name for name in archive.getnames() if re.fullmatch(r"[^/]+/Chart\.yaml", name)]
            member = archive.extractfile(names[0]) if names else None
            return _version(member.read()) if member else None
    # The component and the provider report errors in the file.
    except (OSError, tarfile.TarError):
        return None


def _version(content: bytes) -> str | None:
    try:
        version = yaml.safe_load(content).get("version")
    except (yaml.YAMLError, AttributeError):
        return None
    return str(version) if version else None
