"""Exit codes and error messages of the rehearsal's programs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from live.cluster_client import UnreachableError
from rehearsal.errors import RehearsalError


def exit_code_of(command: Callable[[], int]) -> int:
    """Run a command and return its exit code: 1 with a message for an expected error, 130 for an interruption.

    SIGTERM acts like Ctrl-C: it stops the children and removes the folders.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return command()
    except RehearsalError as error:
        print(error, file=sys.stderr)
        return 1
    except UnreachableError as error:
        print(f"The cluster {error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
