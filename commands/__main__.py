"""Entry point of `ackgpu`: handles interrupts while modules load, and works from any folder."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path


def main() -> int:
    """Run a command. SIGTERM works like Ctrl-C, so temporary folders are removed and child processes end."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        # After Ctrl-C, the Automation API's reader threads fail because their pipes are closed.
        threading.excepthook = lambda failure: (
            None if failure.exc_type is ValueError else threading.__excepthook__(failure)
        )
        # By default this is the folder of this file.
        sys.path[0] = str(Path(__file__).resolve().parents[1])
        from commands.command_line import run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
