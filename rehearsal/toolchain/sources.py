"""The record of where the files of a folder of tools come from, if they were not built."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

_RECORD = "sources.json"


def read_sources(folder: Path) -> dict[str, str]:
    """Return the source of each file in `folder/bin` that was not built."""
    try:
        content = json.loads((folder / _RECORD).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(name): str(source) for name, source in content.items()}


def write_sources(folder: Path, sources: Mapping[str, str]) -> None:
    """Replace the record in one step."""
    partial = folder / f"{_RECORD}.new"
    partial.write_text(json.dumps(dict(sorted(sources.items())), indent=2) + "\n")
    partial.replace(folder / _RECORD)


class TakenTools:
    """Copies of released tools: a later upgrade or removal of the original does not change them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """Return the path of a copy."""
        return self._folder / "bin" / name

    def sources(self) -> dict[str, str]:
        """Return the source of each copy."""
        return {name: source for name, source in read_sources(self._folder).items() if self.path(name).is_file()}

    def take(self, files: Mapping[str, Path], source: str) -> None:
        """Copy files that belong together."""
        self.path("").mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            partial = self._folder / f"{name}.new"
            try:
                shutil.copyfile(file, partial)
                partial.chmod(0o755)
                partial.replace(self.path(name))
            finally:
                partial.unlink(missing_ok=True)
        write_sources(self._folder, {**self.sources(), **dict.fromkeys(files, source)})
