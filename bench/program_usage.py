"""Stands in for `python` before the engine, and notes what the program's process used.

Run as a script; the note goes to the file that the environment variable `ACKGPU_BENCH_USAGE` names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run Python on the arguments; the exit code is its."""
    arguments = sys.argv[1:]
    process = subprocess.Popen([sys.executable, *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    # The language host also asks Python for its version and packages.
    if any(Path(argument).name == "pulumi-language-python-exec" for argument in arguments):
        used = {"cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}
        Path(os.environ["ACKGPU_BENCH_USAGE"]).write_text(json.dumps(used))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
