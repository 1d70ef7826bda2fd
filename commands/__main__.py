"""`python commands`, which `ackgpu` runs: it can be interrupted while it loads, and works in any folder."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path


def main() -> int:
    """Run one command; SIGTERM ends it as Ctrl-C does, so that folders are removed and children end."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        # On Ctrl-C the Automation API's reader threads find their pipes closed.
        threading.excepthook = lambda failure: (
            None if failure.exc_type is ValueError else threading.__excepthook__(failure)
        )
        # Python puts this file's folder there.
        sys.path[0] = str(Path(__file__).resolve().parents[1])
        from commands.command_line import run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
