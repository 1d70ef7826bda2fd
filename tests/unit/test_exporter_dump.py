"""Exporter dumps: the report on their labels, and the advice."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from autoscaling.metrics.catalogue import LABEL_PRESETS, LabelPreset
from autoscaling.metrics.exporter_dump import DumpError, judge
from commands import command_line

DATA = Path(__file__).parents[1] / "data"
REAL = sorted(DATA.glob("dcgm_*.prom"))

# As Prometheus stores it if it does not honor the exporter's labels.
EXPORTED = (
    'DCGM_FI_DEV_GPU_UTIL{pod="dcgm-exporter-x1",namespace="gpu-mon",exported_pod="bert-7c9-aaaaa",'
    'exported_namespace="demo",gpu="0"} 44\n'
)
UPSTREAM = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="Tesla T4",namespace="demo",pod="bert-a"} 44\n'


def test_all_five_real_dumps_exist() -> None:
    assert [path.stem for path in REAL] == [
        "dcgm_a100_vgpu", "dcgm_l40s_idle", "dcgm_l4_idle", "dcgm_t4_busy", "dcgm_t4_rafay",
    ]  # fmt: skip


@pytest.mark.parametrize("preset", LABEL_PRESETS)
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_real_dump_without_pods_is_reported_with_advice(path: Path, preset: LabelPreset) -> None:
    judgement = judge(path.read_text(), preset)
    assert not judgement.usable
    assert (
        "with the labels DCGM_FI_DRIVER_VERSION, Hostname, UUID, device, gpu, modelName, pci_bus_id." in judgement.text
    )
    assert "An HPA can only use metrics that name their pod." in judgement.text
    for step in (
        "nvidia.com/gpu in the workload's limits",
        "DCGM_EXPORTER_KUBERNETES=true",
        "/var/lib/kubelet/pod-resources",
    ):
        assert step in judgement.text
    assert ("set metricsAdapter.labels to upstream" in judgement.text) == (preset == "ack")


def test_reports_the_card_of_a_real_dump() -> None:
    assert judge((DATA / "dcgm_t4_busy.prom").read_text(), "ack").text.startswith("20 series of 1 card (Tesla T4)")


@pytest.mark.case("A1")
def test_labels_of_the_exporters_own_pod_do_not_count_as_the_workloads() -> None:
    judgement = judge(EXPORTED, "upstream")
    assert not judgement.usable
    assert "namespace and pod name the exporter's own pod (gpu-mon/dcgm-exporter-x1)" in judgement.text
    assert judgement.text.endswith("What to do: set metricsAdapter.labels to upstream-exported.")


@pytest.mark.case("A1")
def test_the_preset_for_prefixed_labels_finds_the_workload() -> None:
    judgement = judge(EXPORTED, "upstream-exported")
    assert judgement.usable
    assert "1 of 1 series identify a pod by exported_namespace and exported_pod: demo/bert-7c9-aaaaa." in judgement.text
    assert judgement.text.endswith("An HPA can use DCGM_FI_DEV_GPU_UTIL.")


def test_the_exporters_own_dump_has_no_prefix_yet() -> None:
    judgement = judge(UPSTREAM, "upstream-exported")
    assert judgement.usable
    assert "it adds the prefix exported_ to namespace and pod" in judgement.text


def test_suggests_another_preset_that_matches() -> None:
    judgement = judge(UPSTREAM, "ack")
    assert not judgement.usable
    assert judgement.text.endswith("What to do: set metricsAdapter.labels to upstream.")


def test_an_idle_card_does_not_affect_the_other_cards() -> None:
    idle = 'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2",modelName="Tesla T4"} 0\n'
    judgement = judge(UPSTREAM + idle, "upstream")
    assert judgement.usable
    assert judgement.text.startswith("2 series of 2 cards (Tesla T4)")
    assert "1 of 2 series identify a pod by namespace and pod" in judgement.text


def test_empty_labels_name_no_pod() -> None:
    judgement = judge('DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="",pod="",container=""} 3\n', "upstream")
    assert not judgement.usable
    assert "No series has values for the labels namespace and pod" in judgement.text


def test_an_hpa_cannot_use_metrics_outside_the_catalogue() -> None:
    judgement = judge('DCGM_FI_DEV_SM_CLOCK{gpu="0",namespace="demo",pod="bert-a"} 210\n', "upstream")
    assert not judgement.usable
    assert "No HPA can use these series with metricsAdapter.labels set to upstream" in judgement.text


@pytest.mark.case("A3")
def test_names_the_metric_that_works_for_mig_instances() -> None:
    instance = 'gpu="0",GPU_I_ID="3",GPU_I_PROFILE="1g.10gb",exported_namespace="demo",exported_pod="bert-a"'
    dump = f"DCGM_FI_DEV_GPU_UTIL{{{instance}}} 0\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{{{instance}}} 0.42\n"
    judgement = judge(dump, "upstream-exported")
    assert judgement.usable
    assert "An HPA can use DCGM_FI_PROF_GR_ENGINE_ACTIVE.\n" in judgement.text
    assert "set gpuNodePool.cardMode to mig" in judgement.text


@pytest.mark.parametrize(
    ("dump", "sentence"),
    [
        ("up 1\n", "It has no DCGM_"),
        ("", "It has no DCGM_"),
        ("<html>", "not in the Prometheus text format"),
    ],
)
def test_refuses_text_that_is_not_a_gpu_exporters_dump(dump: str, sentence: str) -> None:
    with pytest.raises(DumpError, match=sentence):
        judge(dump, "ack")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, stdin: str = "") -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    return command_line.run(["check-exporter", *arguments])


def test_the_exit_code_of_the_command_shows_the_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, str(REAL[0])) == 1
    assert run(monkeypatch, "--labels", "upstream", "-", stdin=UPSTREAM) == 0
    assert "An HPA can use DCGM_FI_DEV_GPU_UTIL." in capsys.readouterr().out
    assert run(monkeypatch, str(tmp_path / "none")) == 2
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert run(monkeypatch, str(tmp_path / "bytes")) == 2
    assert run(monkeypatch, "-", stdin="up 1") == 2
    missing, binary, other = capsys.readouterr().err.splitlines()
    assert "No such file or directory" in missing
    assert binary == "FILE is not UTF-8 text. Pass a saved copy of the exporter's /metrics page."
    assert other.startswith("FILE can't be used. It has no DCGM_")
