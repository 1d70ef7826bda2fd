"""The main job: create the stack, run the guide's checks and its load, and destroy everything."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

from pulumi import automation

from live.cluster_client import ClusterClient, connected
from live.verify import LoadTest, ServiceOutputs, StackOutputs, Step, check_stack
from rehearsal.automation import operation, select_stack
from rehearsal.cloud import running_cloud
from rehearsal.environment import temporary_files_in
from rehearsal.layout import STACK, Layout
from rehearsal.leftovers import cluster_leftovers, machine_leftovers
from rehearsal.report import Result, draw_timeline, sample_service
from rehearsal.stack_file import rehearsed_settings
from rehearsal.toolchain.build import ensure_tools

LOAD = ("-n", "10000", "-c", "200")
"""The guide's load, as arguments of `hey`."""
READING = Decimal(23)
"""GPU utilization, in percent, that the guide's HPA reads under this load with one replica."""
READING_TOLERANCE = Decimal(2)
PEAK = 2
"""Number of replicas that the guide's HPA scales out to."""


def rehearse(layout: Layout) -> int:
    """Run the main job, write its report and return the exit code: 0 if all steps passed.

    Raises:
        RehearsalError: the job could not finish.
    """
    job = Result()
    # Check the settings before the tools are built, which can take half an hour.
    rehearsed_settings(layout.checkout)
    with job.timed("tools"):
        tools = ensure_tools()
    started = time.monotonic()
    _print_heading(f"starting the control plane on {layout.address}")
    with running_cloud(layout, tools), temporary_files_in(layout.temporary):
        job.seconds["control_plane"] = round(time.monotonic() - started, 1)
        stack = select_stack(layout)
        _print_heading("pulumi up")
        with job.timed("up"), operation("up"):
            result = stack.up(on_output=print, color="never")
        values = {name: output.value for name, output in result.outputs.items()}
        outputs = StackOutputs.of(STACK, values)
        with connected(layout.kubeconfig.read_text()) as client:
            _print_heading("checks from the guide")
            for step in check_stack(outputs, client):
                job.record(step)
            with sample_service(layout, client, outputs.services[0]) as samples:
                _run_load(job, tools, outputs.services[0], client)
                _preview_again(job, stack)
        _print_heading("pulumi destroy")
        with job.timed("destroy"), operation("destroy"):
            stack.destroy(on_output=print, color="never")
        job.leftovers = cluster_leftovers(layout)
    job.leftovers += machine_leftovers(layout)
    job.record(Step("leftovers", "none", ", ".join(job.leftovers) or "none", not job.leftovers))
    picture, result_file = layout.output / "timeline.png", layout.output / "result.json"
    draw_timeline(picture, samples, outputs.services[0].metrics[0].name)
    ready = [sample.ready_replicas for sample in samples]
    job.replicas = {"start": ready[0], "peak": max(ready), "end": ready[-1]}
    job.write(result_file)
    failed = [step.name for step in job.steps if not step.ok]
    _print_heading(f"report: {result_file.relative_to(layout.checkout)}, {picture.relative_to(layout.checkout)}")
    _print_heading("all steps passed" if not failed else f"{len(failed)} step(s) failed: {'; '.join(failed)}")
    return 1 if failed else 0


def _run_load(job: Result, tools: Path, service: ServiceOutputs, client: ClusterClient) -> None:
    _print_heading(f"load: hey {' '.join(LOAD)} {service.predict_url}")
    command = [str(tools / "hey"), *LOAD, service.predict_url]
    load_test = LoadTest(service, client, command, reading=READING, reading_tolerance=READING_TOLERANCE, peak=PEAK)
    with job.timed("load"):
        for step in load_test.under_load():
            job.record(step)
    with job.timed("scale_in"):
        job.record(load_test.after_load())


def _preview_again(job: Result, stack: automation.Stack) -> None:
    with operation("preview"):
        summary = stack.preview(color="never").change_summary
    changes = job.second_preview_changes = sum(
        count for kind, count in summary.items() if kind != automation.OpType.SAME
    )
    job.record(Step("second preview", "no changes", f"{changes} changes" if changes else "no changes", changes == 0))


def _print_heading(line: str) -> None:
    print(f"\n== {line}", flush=True)
