"""The API server's private address in the VPC, forwarded to the real server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rehearsal.layout import PORTS, Layout

_CHUNK = 2**16


@contextlib.asynccontextmanager
async def intranet_endpoint(layout: Layout) -> AsyncIterator[None]:
    """Forward connections to the intranet address during an `async with` block."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            server_reader, server_writer = await asyncio.open_connection(layout.address, PORTS.api_server)
            await asyncio.gather(_forward(reader, server_writer), _forward(server_reader, writer))

    server = await asyncio.start_server(connect, layout.intranet_address, PORTS.api_server)
    try:
        yield
    finally:
        # Clients keep connections open; `async with` would wait for them.
        server.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
