"""`python -m rehearsal run|up|down`, which can be interrupted from its first moment on."""

from __future__ import annotations

import sys


def main() -> int:
    """Run one command; see `rehearsal.cli`."""
    try:
        # It takes a second to import, and Ctrl-C may come meanwhile.
        from rehearsal import cli
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
