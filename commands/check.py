"""`python -m commands.check --stack dev`: the checks of a stack's settings, without engine and cloud."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from autoscaling.settings import SettingsError
from autoscaling.settings.checked_file import check_file, summary
from commands import CHECKOUT


def main(arguments: Sequence[str] | None = None) -> int:
    """Print warnings and what the settings come to, or each fault on a line; 1 where there is one."""
    parser = argparse.ArgumentParser(prog="python -m commands.check", description="Check a stack's settings.")
    parser.add_argument("--stack", required=True, help="name of the stack")
    # Pulumi Cloud's stacks also go by <organisation>/<project>/<stack>.
    name = f"Pulumi.{parser.parse_args(arguments).stack.rpartition('/')[2]}.yaml"
    try:
        checked = check_file(CHECKOUT / name)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 1
    for warning in checked.warnings:
        print(warning)
    print(f"{name}: {summary(checked)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
