"""`python -m rehearsal TOOLS`: run the supervisor of a rehearsal cloud until SIGTERM."""

from __future__ import annotations

import io
import logging
import os
import sys
from pathlib import Path

from rehearsal.command import exit_code_of
from rehearsal.environment import own_variables
from rehearsal.layout import Layout
from rehearsal.supervisor import serve


def main() -> int:
    """Run the cloud of this checkout."""
    layout = Layout()
    # Flush each line, also into a pipe.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    os.environ.update(own_variables(layout))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    serve(layout, Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
