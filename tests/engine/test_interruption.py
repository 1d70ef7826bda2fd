"""A rehearsal that is killed or interrupted, at any moment: nothing of it stays, and the next one is as the first."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from rehearsal.cloud import running_supervisor
from rehearsal.layout import Layout
from rehearsal.leftovers import machine_leftovers
from rehearsal.processes import stray_processes
from rehearsal.toolchain.build import ensure_tools
from tests.engine.command import ACKGPU, WITHOUT_LOAD, Command, wait_until
from tests.engine.conftest import SideBySide, only_load_on_this_machine

pytestmark = pytest.mark.usefixtures("tools")


@pytest.fixture(scope="module")
def tools() -> None:
    ensure_tools()


def at_its_start(job: Command, layout: Layout) -> None:
    job.wait_for("== starting the control plane")
    wait_until(lambda: stray_processes(layout), "the supervisor starts")


def while_the_control_plane_starts(job: Command, layout: Layout) -> None:
    wait_until((layout.cloud / "control-plane" / "etcd").exists, "etcd starts")
    assert not layout.ready_file.exists()


def in_up(job: Command, layout: Layout) -> None:
    job.wait_for("== pulumi up", "Release", "creating")
    assert list(layout.backend.rglob("locks/**/*.json")), "the state is locked"


def in_destroy(job: Command, layout: Layout) -> None:
    job.wait_for("== pulumi destroy", "deleting")


def wait_until_nothing_is_left(layout: Layout) -> None:
    wait_until(lambda: not machine_leftovers(layout), "processes, ports and folder are gone")


@pytest.mark.parametrize("moment", [at_its_start, while_the_control_plane_starts, in_up, in_destroy])
def test_what_a_killed_rehearsal_started_ends_with_it(
    checkout: Layout, moment: Callable[[Command, Layout], None]
) -> None:
    with Command(WITHOUT_LOAD, checkout.checkout) as job:
        moment(job, checkout)
        job.process.kill()
        job.process.wait()
        wait_until_nothing_is_left(checkout)


def test_the_next_start_ends_what_lost_its_supervisor_too(checkout: Layout) -> None:
    with only_load_on_this_machine(), Command([*ACKGPU, "rehearse"], checkout.checkout) as job:
        job.wait_for("== load:")
        wait_until(lambda: "hey" in {process.name() for process in stray_processes(checkout)}, "the load runs")
        running = stray_processes(checkout)
        supervisor = running_supervisor(checkout)
        assert supervisor in running
        job.process.kill()
        supervisor.kill()
    with Command([*ACKGPU, "up"], checkout.checkout) as up:
        assert up.end() == 0, up.output
    assert [process for process in running if process.is_running()] == []


def test_a_running_supervisor_cloud_that_was_killed_does_not_stand_in_the_way(checkout: Layout) -> None:
    for command, said in (("up", "The rehearsal cloud is up"), ("down", "The rehearsal cloud is down.")):
        supervisor = running_supervisor(checkout)
        assert supervisor is not None
        supervisor.kill()
        with Command([*ACKGPU, command], checkout.checkout) as next_command:
            assert next_command.end() == 0, next_command.output
        assert said in next_command.output
    assert machine_leftovers(checkout) == []


def test_a_killed_make_takes_its_rehearsal_with_it(checkout: Layout) -> None:
    with Command(["make", "rehearse"], checkout.checkout) as make:
        at_its_start(make, checkout)
        [job] = psutil.Process(make.process.pid).children()
        make.process.kill()
        make.process.wait()
        wait_until(lambda: not job.is_running(), "the rehearsal has ended")
        wait_until_nothing_is_left(checkout)


@pytest.mark.parametrize("moment", [at_its_start, in_up])
def test_ctrl_c_ends_all_in_order(checkout: Layout, moment: Callable[[Command, Layout], None]) -> None:
    with Command(["make", "rehearse"], checkout.checkout) as make:
        moment(make, checkout)
        make.interrupt()
        assert make.end() != 0
    assert machine_leftovers(checkout) == []
    assert "\ninterrupted\n" in make.output
    assert "Traceback" not in make.output


def test_after_all_that_the_main_job_holds(checkout: Layout, side_by_side: SideBySide) -> None:
    assert side_by_side.users[0].layout == checkout
    assert "== all steps passed" in side_by_side.users[0].output.read_text()
    assert machine_leftovers(checkout) == []
