"""The adapter's chart changes: it is uninstalled and then installed, and each way of failing is mended by `up`."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import pytest
from kubernetes import client
from pulumi import automation
from pulumi.automation import OpType

from live.helm_release import HelmRelease, latest, secret_selector
from live.verify import check_stack
from rehearsal.automation import engine_options
from tests.engine.command import Command, wait_until
from tests.engine.conftest import Rehearsal, only_load_on_this_machine
from tests.engine.watching import Watching

NAME, SYSTEM = "ack-alibaba-cloud-metrics-adapter", "kube-system"

pytestmark = pytest.mark.usefixtures("deployed")


def chart(rehearsal: Rehearsal, version: str, **replaced: str) -> str:
    """A copy of the rehearsal's chart under another version, with other texts in its template; its path."""
    folder = rehearsal.layout.checkout / f"chart {version}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(rehearsal.layout.checkout / "rehearsal" / "chart", folder)
    metadata, template = folder / "Chart.yaml", folder / "templates" / "adapter.yaml"
    metadata.write_text(metadata.read_text().replace("version: 1.3.2", f"version: {version}"))
    text = template.read_text()
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    template.write_text(text)
    return f"./{folder.name}"


def use(rehearsal: Rehearsal, path: str) -> None:
    rehearsal.edit(metricsAdapter={**rehearsal.setting("metricsAdapter"), "chart": path})


def live(rehearsal: Rehearsal) -> HelmRelease | None:
    core = client.CoreV1Api(rehearsal.api)
    secrets = core.list_namespaced_secret(SYSTEM, label_selector=secret_selector(NAME))
    return latest(rehearsal.api.sanitize_for_serialization(secrets)["items"])


def replaced(rehearsal: Rehearsal) -> tuple[automation.UpResult, list[tuple[OpType, str]]]:
    """Bring the stack up; each step that is no `same`, with the name of its resource."""
    steps: list[tuple[OpType, str]] = []

    def note(event: automation.EngineEvent) -> None:
        if event.resource_pre_event and event.resource_pre_event.metadata.op != OpType.SAME:
            metadata = event.resource_pre_event.metadata
            steps.append((metadata.op, metadata.urn.rpartition("::")[2]))

    return rehearsal.stack.up(color="never", on_event=note), steps


@pytest.fixture(scope="module")
def upgraded(rehearsal: Rehearsal) -> str:
    return chart(rehearsal, "1.4.0")


def test_an_upgrade_under_load_is_told_replaces_the_release_alone_and_takes_no_replica_away(
    rehearsal: Rehearsal, upgraded: str
) -> None:
    [service] = rehearsal.outputs().services
    hey = [str(rehearsal.tools / "hey"), "-z", "100s", "-c", "200", service.predict_url]
    with (
        only_load_on_this_machine(),
        Command(hey, cwd=rehearsal.layout.checkout),
        Watching(rehearsal.api, service) as seen,
    ):
        wait_until(lambda: seen.replicas[-1:] == [2], "the load brings a second replica", seconds=60)
        use(rehearsal, upgraded)
        previewed = rehearsal.stack.preview(color="never")
        first = len(seen.replicas)
        result, steps = replaced(rehearsal)
        # The first is the state in which the change begins.
        meanwhile = seen.replicas[first - 1 :]
        active = list(seen.scaling_active)
    for said in (previewed.stdout, result.stdout):
        assert re.search(
            r"chart changes from 1\.3\.2 to 1\.4\.0\. .*uninstalls the release and installs it again", said
        )
        assert "replicas stay as they are" in said
    assert {name for _, name in steps} == {"adapter-release"}
    assert [op for op, _ in steps] == [OpType.DELETE_REPLACED, OpType.REPLACE, OpType.CREATE_REPLACEMENT]
    assert set(meanwhile) == {2}
    # Whether the controller looked while the adapter was away is left to its own clock.
    assert active[-1] == "True"
    release = live(rehearsal)
    assert release and (release.version, release.status, release.revision) == ("1.4.0", "deployed", 1)
    assert [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok] == []
    # Another spelling of the path.
    use(rehearsal, str(rehearsal.layout.checkout / upgraded))
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME, OpType.UPDATE}


def test_a_chart_that_fails_is_mended_by_another_up(rehearsal: Rehearsal) -> None:
    broken = chart(rehearsal, "1.5.0", **{"{{- $adapter :=": '{{ fail "a fault of the chart" }}{{- $adapter :='})
    use(rehearsal, broken)
    with pytest.raises(automation.CommandError, match="a fault of the chart") as failure:
        rehearsal.up()
    assert "restore the previous metricsAdapter settings, then run `pulumi up` again" in str(failure.value)
    assert live(rehearsal) is None
    assert chart(rehearsal, "1.5.0") == broken, "mended"
    rehearsal.up()
    release = live(rehearsal)
    assert release and (release.version, release.status) == ("1.5.0", "deployed")


def never_ready(rehearsal: Rehearsal, version: str) -> str:
    # The adapter finds no configuration under that key.
    return chart(rehearsal, version, **{"  config.yaml: |": "  other.yaml: |"})


def kill_in_the_middle(rehearsal: Rehearsal, status: str, *, provider_too: bool) -> None:
    """Run `up` and kill it when the release has the status."""
    options = engine_options(rehearsal.layout)
    pulumi = options.pulumi_command
    assert pulumi
    arguments = [pulumi.command, "up", "--yes", "--skip-preview", "--stack", rehearsal.stack.name]
    environment = {**(options.env_vars or {}), **rehearsal.stack.workspace.env_vars}
    with Command(arguments, cwd=rehearsal.layout.checkout, env=environment) as up:

        def there() -> bool:
            release = live(rehearsal)
            return release is not None and release.status == status

        process = psutil.Process(up.process.pid)
        try:
            wait_until(there, f"the release is {status}", seconds=60)
            # The provider has a process group of its own, and goes on.
            killed = [process, *(process.children(recursive=True) if provider_too else [])]
            for running in killed:
                # Children may end by themselves once their parent is killed.
                with contextlib.suppress(psutil.NoSuchProcess):
                    running.kill()
            psutil.wait_procs(killed)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{up.output}") from error
        finally:
            # Without this, the lock of a failed test fails the tests of every later module.
            up.process.kill()
            up.end()
            rehearsal.stack.cancel()


def five_minutes_later(rehearsal: Rehearsal) -> None:
    """Let the newest record of Helm look as it does when whoever wrote it has given up."""
    core = client.CoreV1Api(rehearsal.api)
    release = live(rehearsal)
    assert release
    name = f"sh.helm.release.v1.{NAME}.v{release.revision}"
    packed = base64.b64decode(core.read_namespaced_secret(name, SYSTEM).data["release"])
    record: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    record["info"]["last_deployed"] = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    packed = base64.b64encode(gzip.compress(json.dumps(record).encode()))
    core.patch_namespaced_secret(name, SYSTEM, {"data": {"release": base64.b64encode(packed).decode()}})


def test_an_up_that_was_killed_in_the_installation_is_taken_back_by_another(
    rehearsal: Rehearsal, upgraded: str
) -> None:
    use(rehearsal, never_ready(rehearsal, "1.6.0"))
    kill_in_the_middle(rehearsal, "pending-install", provider_too=True)
    five_minutes_later(rehearsal)
    use(rehearsal, upgraded)
    said = rehearsal.up().stdout
    assert "The adapter's release has been pending-install since" in said
    release = live(rehearsal)
    assert release and (release.version, release.status) == ("1.4.0", "deployed")


def test_an_up_that_was_killed_alone_is_repeated_once_its_provider_has_ended_the_installation(
    rehearsal: Rehearsal,
) -> None:
    use(rehearsal, chart(rehearsal, "1.7.0"))
    kill_in_the_middle(rehearsal, "pending-install", provider_too=False)
    rehearsal.up()
    release = live(rehearsal)
    assert release and (release.version, release.status) == ("1.7.0", "deployed")


def test_an_update_that_was_killed_is_repeated(rehearsal: Rehearsal) -> None:
    unready = never_ready(rehearsal, "1.7.0")
    # What is in a chart is seen with its next change only.
    adapter = rehearsal.setting("metricsAdapter")
    rehearsal.edit(metricsAdapter={**adapter, "chart": unready, "relistInterval": "6s"})
    kill_in_the_middle(rehearsal, "pending-upgrade", provider_too=True)
    five_minutes_later(rehearsal)
    chart(rehearsal, "1.7.0")
    rehearsal.up()
    release = live(rehearsal)
    assert release and release.status == "deployed"
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}
