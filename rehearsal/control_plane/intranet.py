"""The API server's intranet address: what comes there is passed on to the server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rehearsal.layout import PORTS, Layout

_CHUNK = 2**16


@contextlib.asynccontextmanager
async def intranet_endpoint(layout: Layout) -> AsyncIterator[None]:
    """Answer on the intranet address for the duration of an `async with` block."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there = await asyncio.open_connection(layout.address, PORTS.api_server)
            await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))

    server = await asyncio.start_server(connected, layout.intranet_address, PORTS.api_server)
    try:
        yield
    finally:
        # Not `async with`: it waits for the connections, which clients keep open.
        server.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
