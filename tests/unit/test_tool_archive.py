"""Archives of tools: packed, and installed from a folder or an HTTP server."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.toolchain import download
from rehearsal.toolchain.archive import archive_name
from rehearsal.toolchain.build import pack_tools, tool_sources
from rehearsal.toolchain.groups import Group
from tests.unit.fake_tools import builds, ensure, fake_group, fresh, install_go, timeless

WAYS_ON = ". Fix the variable or the archive, or unset it to build the tools from source."


@pytest.fixture(autouse=True)
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return install_go(tmp_path, monkeypatch)


@pytest.fixture
def groups(tmp_path: Path) -> list[Group]:
    return [fake_group(tmp_path, "one", "alpha"), fake_group(tmp_path, "two", "beta", beside=["schema.json"])]


@pytest.fixture
def archive(groups: list[Group], calls: Path, tmp_path: Path) -> Path:
    """An archive and its checksum file, packed on another machine."""
    archive = pack_tools(tmp_path / "packed", io.StringIO(), groups=fresh(groups), cache=tmp_path / "other cache")
    calls.unlink()
    return archive


class Server:
    """A server on loopback whose answers a test can replace."""

    def __init__(self, folder: Path) -> None:
        self.replaced: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.stopping = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append((self.path, self.headers["Authorization"]))
                file = folder / self.path.rpartition("/")[2].partition("?")[0]
                if answer := server.replaced.get(file.suffix):
                    answer(self)
                elif file.is_file():
                    answer_with(self, file.read_bytes())
                else:
                    self.send_error(404)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.shown = f"http://127.0.0.1:{self.http.server_port}"


def answer_with(handler: BaseHTTPRequestHandler, content: bytes, length: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    handler.end_headers()
    handler.wfile.write(content)


@pytest.fixture
def server(archive: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of the packed archive, named by `ACKGPU_TOOLS_URL`."""
    server = Server(archive.parent)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("ACKGPU_TOOLS_URL", server.shown)
    yield server
    server.stopping.set()
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def refused(groups: list[Group], tmp_path: Path, calls: Path) -> str:
    """Return the error of an installation, which must leave and build nothing."""
    with pytest.raises(RehearsalError) as error:
        ensure(groups, tmp_path)
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()] == ["lock"]
    assert builds(calls) == []
    return str(error.value)


def test_packed_tools_are_installed_from_a_folder(
    groups: list[Group], archive: Path, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKGPU_TOOLS_URL", str(archive.parent))
    tools, output = ensure(groups, tmp_path)
    assert builds(calls) == []
    assert output.startswith(f"tools: unpacking {archive.name} from {archive.parent}\n")
    assert output.endswith("tools: ready\n")
    assert sorted(path.name for path in tools.iterdir()) == ["alpha", "beta", "schema.json"]
    assert (tools / "beta").read_text() == "built\n"
    assert set(tool_sources(tools, groups).values()) == {f"from the archive in {archive.parent}"}


def test_an_archive_and_its_checksum_file_are_named_by_platform_and_pins(groups: list[Group], archive: Path) -> None:
    assert archive.name == archive_name(groups)
    (groups[0].source / "main.go").write_text("package main\n")
    assert archive.name != archive_name(fresh(groups))
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert archive.with_name(f"{archive.name}.sha256").read_text() == f"{checksum}  {archive.name}\n"
    assert len(list(archive.parent.iterdir())) == 2


def test_packing_again_builds_nothing_and_gives_the_same_bytes(
    groups: list[Group], archive: Path, calls: Path, tmp_path: Path
) -> None:
    for file in (tmp_path / "other cache").rglob("*"):
        os.utime(file, (0, 0))
    output = io.StringIO()
    again = pack_tools(tmp_path / "again", output, groups=fresh(groups), cache=tmp_path / "other cache")
    assert again.read_bytes() == archive.read_bytes()
    assert timeless(output.getvalue()) == f"tools: packing {archive.name}\n"
    assert builds(calls) == []


def test_a_folder_that_cannot_be_written_is_an_error(groups: list[Group], archive: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RehearsalError) as error:
        pack_tools(tmp_path / "file" / "packed", io.StringIO(), groups=fresh(groups), cache=tmp_path / "other cache")
    assert str(error.value) == (
        f"The archive can't be written into {tmp_path}/file/packed (Not a directory). "
        "Free disk space or name another folder."
    )


def test_an_archive_is_downloaded_with_progress(
    groups: list[Group], server: Server, archive: Path, calls: Path, tmp_path: Path
) -> None:
    tools, output = ensure(groups, tmp_path)
    assert builds(calls) == []
    assert f"tools: downloading {archive.name} from {server.shown} ... 100 %\n" in output
    assert set(tool_sources(tools, groups).values()) == {f"from the archive in {server.shown}"}
    assert ensure(groups, tmp_path) == (tools, "tools: ready\n"), "a second run downloads nothing"
    assert len(server.requests) == 2


def test_an_address_may_contain_a_password_a_path_and_a_query(
    groups: list[Group], server: Server, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKGPU_TOOLS_URL", server.shown.replace("//", "//me:s%20ecret@") + "/secret/?token=secret")
    _, output = ensure(groups, tmp_path)
    assert server.requests[-1] == (f"/secret/{archive.name}?token=secret", "Basic bWU6cyBlY3JldA==")
    assert "ecret" not in output


def test_tools_that_are_built_stay_and_the_archive_brings_the_rest(
    groups: list[Group], server: Server, tmp_path: Path
) -> None:
    built = tmp_path / "cache" / "tools" / groups[0].key / "bin" / "alpha"
    built.parent.mkdir(parents=True)
    built.write_text("built here\n")
    tools, _ = ensure(groups, tmp_path)
    assert (tools / "alpha").read_text() == "built here\n"
    assert tool_sources(tools, groups) == {
        "alpha": "built from tools/one",
        "beta": f"from the archive in {server.shown}",
    }


def test_a_missing_archive_is_an_error(
    groups: list[Group], server: Server, archive: Path, calls: Path, tmp_path: Path
) -> None:
    archive.unlink()
    message = refused(groups, tmp_path, calls)
    assert message == f"ACKGPU_TOOLS_URL: {server.shown} answers 404 for {archive.name}{WAYS_ON}"


def test_a_download_that_is_cut_off_is_an_error(
    groups: list[Group], server: Server, archive: Path, calls: Path, tmp_path: Path
) -> None:
    content = archive.read_bytes()
    server.replaced[".gz"] = lambda handler: answer_with(handler, content[:-10], len(content))
    message = refused(groups, tmp_path, calls)
    assert message == f"ACKGPU_TOOLS_URL: {archive.name}: {server.shown} cut off the download{WAYS_ON}"


def test_a_server_that_sends_no_data_is_an_error(
    groups: list[Group], server: Server, archive: Path, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_NO_DATA_SECONDS", 0.2)

    def stall(handler: BaseHTTPRequestHandler) -> None:
        answer_with(handler, b"some", 1000)
        handler.wfile.flush()
        server.stopping.wait()

    server.replaced[".gz"] = stall
    message = refused(groups, tmp_path, calls)
    assert message == f"ACKGPU_TOOLS_URL: {archive.name}: {server.shown} sent no data for 0.2 s{WAYS_ON}"


def test_a_server_that_cannot_be_reached_is_an_error(
    groups: list[Group], server: Server, archive: Path, calls: Path, tmp_path: Path
) -> None:
    server.http.shutdown()
    server.http.server_close()
    message = refused(groups, tmp_path, calls)
    assert message == (
        f"ACKGPU_TOOLS_URL: {archive.name}.sha256: {server.shown} can't be reached (Connection refused){WAYS_ON}"
    )


def test_a_wrong_checksum_is_an_error(
    groups: list[Group], server: Server, archive: Path, calls: Path, tmp_path: Path
) -> None:
    actual = hashlib.sha256(archive.read_bytes()).hexdigest()
    server.replaced[".sha256"] = lambda handler: answer_with(handler, b"0" * 64 + b"\n")
    assert refused(groups, tmp_path, calls) == (
        f"ACKGPU_TOOLS_URL: wrong checksum: its SHA-256 is {actual}, and the .sha256 file beside it has "
        f"{'0' * 64}{WAYS_ON}"
    )


def replace_archive(archive: Path, content: bytes) -> None:
    archive.write_bytes(content)
    archive.with_name(f"{archive.name}.sha256").write_text(hashlib.sha256(content).hexdigest())


def test_a_file_that_is_not_an_archive_is_an_error(
    groups: list[Group], server: Server, archive: Path, calls: Path, tmp_path: Path
) -> None:
    replace_archive(archive, b"<html>Please log in</html>")
    message = refused(groups, tmp_path, calls)
    assert message == f"ACKGPU_TOOLS_URL: it is not a .tar.gz archive, or it is damaged{WAYS_ON}"


def test_an_archive_installs_only_the_regular_files_of_the_tools(
    groups: list[Group], server: Server, archive: Path, calls: Path, tmp_path: Path
) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../../escaped"))
        link = tarfile.TarInfo(f"{groups[0].key}/bin/alpha")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    replace_archive(archive, content.getvalue())
    message = refused(groups, tmp_path, calls)
    assert message == f"ACKGPU_TOOLS_URL: it does not contain {groups[0].key}/bin/alpha{WAYS_ON}"
    assert not list(tmp_path.rglob("escaped"))


def test_a_web_page_is_not_a_checksum(groups: list[Group], server: Server, calls: Path, tmp_path: Path) -> None:
    server.replaced[".sha256"] = lambda handler: answer_with(handler, b"<html>Please log in</html>")
    message = refused(groups, tmp_path, calls)
    assert message == f"ACKGPU_TOOLS_URL: the .sha256 file beside it does not begin with a SHA-256{WAYS_ON}"


def test_a_full_disk_is_an_error(
    groups: list[Group], server: Server, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rehearsal.toolchain.archive.shutil.copyfileobj", full)
    assert refused(groups, tmp_path, calls) == (
        f"The tools can't be kept in {tmp_path}/cache (No space left on device): free disk space, get permission to "
        "write there, or set ACKGPU_CACHE to another folder."
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("ftp://example.com/secret", "it is neither a folder nor an http or https address"),
        ("https://example.com:secret", "it is not a valid address"),
        ("/nowhere", "/nowhere/{name}.sha256 can't be read (No such file or directory)"),
    ],
)
def test_a_wrong_value_is_an_error(
    groups: list[Group], calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    monkeypatch.setenv("ACKGPU_TOOLS_URL", value)
    message = refused(groups, tmp_path, calls)
    assert message == f"ACKGPU_TOOLS_URL: {reason.format(name=archive_name(groups))}{WAYS_ON}"
