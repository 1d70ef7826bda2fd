"""Downloads over HTTP. No error contains the path, user or query of an address: they can be secret."""

from __future__ import annotations

import base64
import contextlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rehearsal.toolchain.archive import ArchiveError

_NO_DATA_SECONDS = 30
"""Time limit of a connection, and of each wait for data."""
_CHUNK = 2**20
_MAX_TEXT_BYTES = 4096


class Location:
    """A folder at an HTTP address."""

    def __init__(self, address: str) -> None:
        try:
            self._parts = urlsplit(address)
            port = f":{self._parts.port}" if self._parts.port else ""
        except ValueError:
            raise ArchiveError("it is not a valid address") from None
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise ArchiveError("it is neither a folder nor an http or https address")
        self.shown = f"{self._parts.scheme}://{self._parts.hostname}{port}"
        """The part of the address that is not secret."""

    def text(self, name: str) -> str:
        """Return the content of a small file."""
        with self._response(name) as response:
            return response.read(_MAX_TEXT_BYTES).decode(errors="replace")

    def download(self, name: str, target: Path, progress: Callable[[int], None]) -> None:
        """Write a file, and report each tenth of it in percent."""
        with self._response(name) as response, target.open("wb") as file:
            size = int(response.headers.get("Content-Length", 0))
            written = tenths = 0
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                written += len(chunk)
                if size and written * 10 // size > tenths:
                    tenths = written * 10 // size
                    progress(tenths * 10)
            if written < size:
                raise http.client.IncompleteRead(b"")

    @contextlib.contextmanager
    def _response(self, name: str) -> Iterator[http.client.HTTPResponse]:
        parts = self._parts
        path = f"{parts.path.rstrip('/')}/{name}"
        request = urllib.request.Request(parts._replace(netloc=parts.netloc.rpartition("@")[2], path=path).geturl())
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            # A redirect can lead to another host, which must not get the password.
            request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=_NO_DATA_SECONDS) as response:
                yield response
        except urllib.error.HTTPError as error:
            error.close()
            raise ArchiveError(f"{self.shown} answers {error.code} for {name}") from None
        except (TimeoutError, urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
            raise ArchiveError(f"{name}: {self._explain(error)}") from None

    def _explain(self, error: Exception) -> str:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError):
            return f"{self.shown} sent no data for {_NO_DATA_SECONDS} s"
        if isinstance(error, urllib.error.URLError):
            return f"{self.shown} can't be reached ({getattr(reason, 'strerror', None) or reason})"
        return f"{self.shown} cut off the download"
