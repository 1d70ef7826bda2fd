"""`./ackgpu tools`: get, build or pack the tools of a rehearsal."""

from __future__ import annotations

from pathlib import Path

import click

from commands.command_line import examples, explained


@click.command(epilog=examples("tools", "tools --pack build/tools"))
@click.option(
    "--pack",
    is_flag=False,
    flag_value="build/tools",
    metavar="[FOLDER]",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write an archive of tools built from source, and its SHA-256, for ACKGPU_TOOLS_URL. Default: build/tools.",
)
def tools(pack: Path | None) -> None:
    """Get or build the tools of a rehearsal.

    Takes released tools from the folder ACKGPU_TOOLS, from an archive at ACKGPU_TOOLS_URL (a folder or an HTTP address)
    and from PATH, builds the rest from source, and prints where each comes from. ACKGPU_TOOLS=none takes no installed
    tool.
    """
    from rehearsal.errors import RehearsalError
    from rehearsal.toolchain.build import ensure_tools, pack_tools, tool_sources

    with explained(RehearsalError):
        if pack is not None:
            archive = pack_tools(pack)
            print(f"{archive}\n{archive}.sha256")
            return
        folder = ensure_tools()
    for name, source in tool_sources(folder).items():
        print(f"  {name:28}{source}")
    print(folder)
