"""`python -m commands.check_exporter metrics.txt`: judge whether an HPA can work on a GPU exporter's series."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaling.metrics.catalogue import LABEL_PRESETS
from autoscaling.metrics.exporter_dump import DumpError, judge


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the judgement; return 0 if an HPA can work, 1 if it can't, 2 if there is no dump."""
    parser = argparse.ArgumentParser(
        prog="python -m commands.check_exporter",
        description="Judge whether an HPA can work on a GPU exporter's series.",
    )
    parser.add_argument("dump", help="file with what the exporter's /metrics says, or - for the standard input")
    parser.add_argument(
        "--labels", choices=LABEL_PRESETS, default="ack", help="as in the setting metricsAdapter.labels"
    )
    options = parser.parse_args(arguments)
    try:
        text = sys.stdin.read() if options.dump == "-" else Path(options.dump).read_text()
        judgement = judge(text, options.labels)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        print(f"{options.dump} can't be read: {reason}.", file=sys.stderr)
        return 2
    except DumpError as error:
        print(f"{options.dump} can't be judged. {error}", file=sys.stderr)
        return 2
    print(judgement.text)
    return 0 if judgement.usable else 1


if __name__ == "__main__":
    sys.exit(main())
