"""Run commands as an unprivileged user without an account, without a network and on a read-only file system.

`python sandbox.py SPECIFICATION`, a JSON object:

    writable   writable folders; all other folders are read-only
    stand_ins  path to the writable folder that replaces it
    kept       folders that stay visible even below a stand-in
    commands   run in parallel, each with arguments, cwd, env and output (a file)

The exit code is the highest of the commands' exit codes. The kernel must let this user create a user namespace.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

UID = 54321
"""A user ID that has no account on any machine."""

_NEW_MOUNTS, _NEW_USER, _NEW_NETWORK = 0x00020000, 0x10000000, 0x40000000
_BIND, _PRIVATE = 0x1000 | 0x4000, 0x40000 | 0x4000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


def _require(action: str, result: int) -> None:
    if result:
        sys.exit(
            f"The kernel does not let this user {action} ({os.strerror(ctypes.get_errno())}). For this test, "
            "allow unprivileged user namespaces (sysctl user.max_user_namespaces; on Ubuntu also "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container the seccomp profile)."
        )


def enter(writable: Sequence[str], stand_ins: Mapping[str, str], kept: Sequence[str]) -> None:
    """Move this process into the sandbox. Its new child processes have no privileges."""
    uid, gid = os.getuid(), os.getgid()
    _require("create a user namespace", _libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_NETWORK))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{UID} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{UID} {gid} 1")
    _require("make its mounts private", _libc.mount(None, b"/", None, _PRIVATE, None))
    # Open all folders before the first mount: a stand-in hides what is below it.
    sources = {**stand_ins, **{path: path for path in (*kept, *writable)}}
    opened = {target: os.open(source, os.O_PATH) for target, source in sources.items()}
    for target, number in opened.items():
        os.makedirs(target, exist_ok=True)
        _require("mount", _libc.mount(f"/proc/self/fd/{number}".encode(), os.fsencode(target), None, _BIND, None))
    _set_read_only("/", recursive=True)
    for path in (*stand_ins, *writable):
        _set_read_only(path, False)
    _raise_loopback()


def _set_read_only(path: str, value: bool = True, *, recursive: bool = False) -> None:
    # struct mount_attr: set, clear, propagation, user namespace.
    attributes = struct.pack("QQQQ", *((_READ_ONLY, 0) if value else (0, _READ_ONLY)), 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.c_size_t(len(attributes))
    )
    _require(f"change the mount of {path}", result)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def main() -> int:
    """Run the commands of the specification."""
    specification = json.loads(sys.argv[1])
    enter(specification["writable"], specification["stand_ins"], specification["kept"])
    running = []
    for command in specification["commands"]:
        with open(command["output"], "wb") as output:
            running.append(
                subprocess.Popen(
                    command["arguments"],
                    cwd=command["cwd"],
                    env=command["env"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())
