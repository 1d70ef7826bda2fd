"""A change of the adapter's chart replaces the release, and the next `up` recovers from each failure."""

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
from tests.engine.service_watch import ServiceWatch

NAME, SYSTEM = "ack-alibaba-cloud-metrics-adapter", "kube-system"

pytestmark = pytest.mark.usefixtures("deployed")


def chart(rehearsal: Rehearsal, version: str, **replaced: str) -> str:
    """Copy the rehearsal's chart with another version and replaced texts in its template; return the path."""
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


def use_chart(rehearsal: Rehearsal, path: str) -> None:
    rehearsal.edit(metricsAdapter={**rehearsal.setting("metricsAdapter"), "chart": path})


def live_release(rehearsal: Rehearsal) -> HelmRelease | None:
    core = client.CoreV1Api(rehearsal.api)
    secrets = core.list_namespaced_secret(SYSTEM, label_selector=secret_selector(NAME))
    return latest(rehearsal.api.sanitize_for_serialization(secrets)["items"])


def up_with_steps(rehearsal: Rehearsal) -> tuple[automation.UpResult, list[tuple[OpType, str]]]:
    """Run `up`; return its result and each step that changes a resource, with the resource's name."""
    steps: list[tuple[OpType, str]] = []

    def note(event: automation.EngineEvent) -> None:
        if event.resource_pre_event and event.resource_pre_event.metadata.op != OpType.SAME:
            metadata = event.resource_pre_event.metadata
            steps.append((metadata.op, metadata.urn.rpartition("::")[2]))

    return rehearsal.stack.up(color="never", on_event=note), steps


@pytest.fixture(scope="module")
def upgraded(rehearsal: Rehearsal) -> str:
    return chart(rehearsal, "1.4.0")


def test_a_chart_upgrade_under_load_replaces_only_the_release_and_keeps_all_replicas(
    rehearsal: Rehearsal, upgraded: str
) -> None:
    [service] = rehearsal.outputs().services
    hey = [str(rehearsal.tools / "hey"), "-z", "100s", "-c", "200", service.predict_url]
    with (
        only_load_on_this_machine(),
        Command(hey, cwd=rehearsal.layout.checkout),
        ServiceWatch(rehearsal.api, service) as service_watch,
    ):
        wait_until(lambda: service_watch.replicas[-1:] == [2], "the load adds a second replica", seconds=60)
        use_chart(rehearsal, upgraded)
        previewed = rehearsal.stack.preview(color="never")
        start = len(service_watch.replicas)
        result, steps = up_with_steps(rehearsal)
        # Include the state at the start of the change.
        replicas = service_watch.replicas[start - 1 :]
        active = list(service_watch.scaling_active)
    for output in (previewed.stdout, result.stdout):
        assert re.search(
            r"chart changes from 1\.3\.2 to 1\.4\.0\. .*uninstalls the release and installs it again", output
        )
        assert "replicas stay as they are" in output
    assert {name for _, name in steps} == {"adapter-release"}
    assert [op for op, _ in steps] == [OpType.DELETE_REPLACED, OpType.REPLACE, OpType.CREATE_REPLACEMENT]
    assert set(replicas) == {2}
    # The controller may or may not sync while the adapter is missing.
    assert active[-1] == "True"
    release = live_release(rehearsal)
    assert release and (release.version, release.status, release.revision) == ("1.4.0", "deployed", 1)
    assert [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok] == []
    # The same chart with another spelling of the path.
    use_chart(rehearsal, str(rehearsal.layout.checkout / upgraded))
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME, OpType.UPDATE}


def test_up_recovers_from_a_failing_chart(rehearsal: Rehearsal) -> None:
    broken = chart(rehearsal, "1.5.0", **{"{{- $adapter :=": '{{ fail "a fault of the chart" }}{{- $adapter :='})
    use_chart(rehearsal, broken)
    with pytest.raises(automation.CommandError, match="a fault of the chart") as failure:
        rehearsal.up()
    assert "restore the previous metricsAdapter settings, then run `pulumi up` again" in str(failure.value)
    assert live_release(rehearsal) is None
    assert chart(rehearsal, "1.5.0") == broken, "the fixed chart has the same path"
    rehearsal.up()
    release = live_release(rehearsal)
    assert release and (release.version, release.status) == ("1.5.0", "deployed")


def never_ready(rehearsal: Rehearsal, version: str) -> str:
    # The adapter cannot find its configuration under this key.
    return chart(rehearsal, version, **{"  config.yaml: |": "  other.yaml: |"})


def kill_up_during(rehearsal: Rehearsal, status: str, *, kill_provider: bool) -> None:
    """Run `up` and kill it as soon as the release has the status."""
    options = engine_options(rehearsal.layout)
    pulumi = options.pulumi_command
    assert pulumi
    arguments = [pulumi.command, "up", "--yes", "--skip-preview", "--stack", rehearsal.stack.name]
    environment = {**(options.env_vars or {}), **rehearsal.stack.workspace.env_vars}
    with Command(arguments, cwd=rehearsal.layout.checkout, env=environment) as up:

        def has_status() -> bool:
            release = live_release(rehearsal)
            return release is not None and release.status == status

        process = psutil.Process(up.process.pid)
        try:
            wait_until(has_status, f"the release is {status}", seconds=60)
            # The provider has its own process group and continues.
            victims = [process, *(process.children(recursive=True) if kill_provider else [])]
            for victim in victims:
                # Children may exit when their parent is killed.
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.kill()
            psutil.wait_procs(victims)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{up.output}") from error
        finally:
            # A lock that a failed test leaves would fail all later modules.
            up.process.kill()
            up.end()
            rehearsal.stack.cancel()


def age_release_by_five_minutes(rehearsal: Rehearsal) -> None:
    """Make Helm's newest record so old that its operation counts as abandoned."""
    core = client.CoreV1Api(rehearsal.api)
    release = live_release(rehearsal)
    assert release
    name = f"sh.helm.release.v1.{NAME}.v{release.revision}"
    packed = base64.b64decode(core.read_namespaced_secret(name, SYSTEM).data["release"])
    record: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    record["info"]["last_deployed"] = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    packed = base64.b64encode(gzip.compress(json.dumps(record).encode()))
    core.patch_namespaced_secret(name, SYSTEM, {"data": {"release": base64.b64encode(packed).decode()}})


def test_up_cleans_up_after_an_up_that_was_killed_during_the_installation(rehearsal: Rehearsal, upgraded: str) -> None:
    use_chart(rehearsal, never_ready(rehearsal, "1.6.0"))
    kill_up_during(rehearsal, "pending-install", kill_provider=True)
    age_release_by_five_minutes(rehearsal)
    use_chart(rehearsal, upgraded)
    output = rehearsal.up().stdout
    assert "The adapter's release has been pending-install since" in output
    release = live_release(rehearsal)
    assert release and (release.version, release.status) == ("1.4.0", "deployed")


def test_up_succeeds_after_the_provider_of_a_killed_up_has_finished_the_installation(
    rehearsal: Rehearsal,
) -> None:
    use_chart(rehearsal, chart(rehearsal, "1.7.0"))
    kill_up_during(rehearsal, "pending-install", kill_provider=False)
    rehearsal.up()
    release = live_release(rehearsal)
    assert release and (release.version, release.status) == ("1.7.0", "deployed")


def test_up_repeats_a_killed_update(rehearsal: Rehearsal) -> None:
    unready = never_ready(rehearsal, "1.7.0")
    # A change inside the chart takes effect only with a change of the release.
    adapter = rehearsal.setting("metricsAdapter")
    rehearsal.edit(metricsAdapter={**adapter, "chart": unready, "relistInterval": "6s"})
    kill_up_during(rehearsal, "pending-upgrade", kill_provider=True)
    age_release_by_five_minutes(rehearsal)
    chart(rehearsal, "1.7.0")
    rehearsal.up()
    release = live_release(rehearsal)
    assert release and release.status == "deployed"
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}
