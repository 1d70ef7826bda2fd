"""How a command for people ends: with an exit code, and a sentence where it failed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable

from live.cluster_client import UnreachableError
from rehearsal.errors import RehearsalError


def sigterm_as_ctrl_c() -> None:
    """Let SIGTERM end this process as Ctrl-C does: children are ended and folders removed on the way out."""
    threading.excepthook = _without_closed_pipes
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def exit_code_of(command: Callable[[], int]) -> int:
    """Run a command; an expected error becomes its sentence and 1, an interruption 130."""
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


def _without_closed_pipes(failure: threading.ExceptHookArgs) -> None:
    # On Ctrl-C the Automation API's reader threads find their pipes closed, which is no news to anybody.
    if failure.exc_type is not ValueError:
        threading.__excepthook__(failure)
