"""How a program of the rehearsal ends: with an exit code, and a sentence where it failed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from live.cluster_client import UnreachableError
from rehearsal.errors import RehearsalError


def exit_code_of(command: Callable[[], int]) -> int:
    """Run a command; an expected error becomes its sentence and 1, an interruption 130.

    SIGTERM ends it as Ctrl-C does: children are ended and folders removed on the way out.
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
