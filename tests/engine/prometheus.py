"""Change the configuration of the cloud's real Prometheus temporarily."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import yaml

from rehearsal.layout import Layout


@contextmanager
def configured(layout: Layout, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Change the configuration and restore it at the end of the `with` block."""
    path = layout.cloud / "prometheus" / "prometheus.yaml"
    before = path.read_text()
    content = yaml.safe_load(before)
    change(content)
    _reload(path, yaml.safe_dump(content))
    yield
    _reload(path, before)


def _reload(path: Path, content: str) -> None:
    path.write_text(content)
    [prometheus] = [
        process
        for process in psutil.process_iter(["cmdline"])
        if f"--config.file={path}" in (process.info["cmdline"] or [])
    ]
    prometheus.send_signal(signal.SIGHUP)
