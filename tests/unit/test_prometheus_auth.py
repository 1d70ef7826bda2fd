"""Credentials for Prometheus: required values, secrecy, and the adapter's header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
import yaml

from autoscaling.settings import SettingsError, parse
from components.metrics_adapter import MetricsAdapter, MetricsAdapterArgs, ReleaseSpec
from live.verify import Step, check_stack
from rehearsal.alicloud.store import CloudStore
from rehearsal.stack_file import rehearsed_settings
from tests.rehearsed_account import require_access_key, require_no_credentials
from tests.unit.fake_cluster import ADAPTER_PODS, PROMETHEUS, RULE, VALUES, adapter_pod, healthy, query, running, series
from tests.unit.program import CHECKOUT, Recorder, run, run_program, stack_config

SECRET = "secret-of-an-access-key"
BASIC = {"type": "basic", "accessKeyId": "LTAI1", "accessKeySecret": SECRET}
# base64 of "LTAI1:secret-of-an-access-key", by coreutils.
HEADER = "Basic TFRBSTE6c2VjcmV0LW9mLWFuLWFjY2Vzcy1rZXk="


def config(auth: Any) -> dict[str, Any]:
    return {**stack_config("rehearsal"), "ackgpu:prometheus": {"auth": auth}}


def program(auth: Any, *, encrypted: bool = True, preview: bool = False) -> Recorder:
    keys = ["ackgpu:prometheus"] if encrypted else []
    return run_program(config(auth), Recorder(preview=preview), encrypted=keys)


def header(recorder: Recorder) -> Any:
    return recorder.secret_values["AlibabaCloudMetricsAdapter"]["prometheus"].get("prometheusHeader")


def plain(value: Any) -> Any:
    """Remove the SDK's marks for secrets."""
    if isinstance(value, dict):
        return plain(value["value"]) if "value" in value else {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.case("F5")
@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ({}, None),
        ({"type": "none"}, None),
        ({"type": "token", "token": "token-of-an-instance"}, [{"Authorization": "token-of-an-instance"}]),
        (BASIC, [{"Authorization": HEADER}]),
    ],
)
def test_the_release_has_the_header_as_a_secret(auth: dict[str, str], expected: Any) -> None:
    recorder = program(auth)
    assert plain(header(recorder)) == expected
    shown = repr(recorder.registrations) + repr(recorder.outputs)
    assert not [secret for secret in (SECRET, HEADER, "token-of-an-instance") if secret in shown]


def test_printed_args_of_the_adapter_do_not_show_secrets() -> None:
    url = "http://prometheus/token-of-an-instance"
    spec = ReleaseSpec(chart="c", stack="s", prometheus_authorization=HEADER, rules=[], relist_interval="1m")
    assert repr(MetricsAdapterArgs(release=spec, prometheus_url=url)) == (
        "MetricsAdapterArgs(release=ReleaseSpec(chart='c', chart_version=None, stack='s', rules=[], "
        "relist_interval='1m', adopted=False, retain_on_delete=False))"
    )


@pytest.mark.case("F5")
def test_the_header_is_a_secret_even_if_the_address_is_not() -> None:
    def body() -> None:
        provider = kubernetes.Provider("theirs", kubeconfig=pulumi.Output.secret("k"))
        spec = ReleaseSpec(
            chart="./rehearsal/chart",
            stack="theirs/dev",
            prometheus_authorization=HEADER,
            rules=[],
            relist_interval="1m",
        )
        args = MetricsAdapterArgs(release=spec, prometheus_url="http://prometheus")
        MetricsAdapter("theirs", args, pulumi.ResourceOptions(providers=[provider]))

    recorder = run(Recorder(), body)
    assert HEADER not in repr(recorder.resource("kubernetes:helm.sh/v3:Release").inputs)
    assert plain(header(recorder)) == [{"Authorization": HEADER}]


@pytest.mark.case("F5")
@pytest.mark.parametrize(
    ("auth", "sentences"),
    [
        (
            {"type": "basic"},
            [
                "prometheus.auth.accessKeyId is missing, although prometheus.auth.type is basic: run "
                "`pulumi config set --path prometheus.auth.accessKeyId`.",
                "prometheus.auth.accessKeySecret is missing, although prometheus.auth.type is basic: run "
                "`pulumi config set --secret --path prometheus.auth.accessKeySecret`.",
            ],
        ),
        (
            {"type": "token"},
            [
                "prometheus.auth.token is missing, although prometheus.auth.type is token: run `pulumi config set "
                "--secret --path prometheus.auth.token`."
            ],
        ),
        (
            {"token": SECRET},
            ["prometheus.auth.token is set, but prometheus.auth.type is none: set type to token, or remove token."],
        ),
        (
            {**BASIC, "token": SECRET},
            ["prometheus.auth.token is set, but prometheus.auth.type is basic: set type to token, or remove token."],
        ),
    ],
)
def test_refuses_credentials_that_do_not_match_the_type(auth: dict[str, str], sentences: list[str]) -> None:
    with pytest.raises(pulumi.RunError) as failure:
        program(auth, preview=True)
    assert str(failure.value).splitlines()[1:] == sentences


@pytest.mark.case("F5")
def test_refuses_a_secret_in_plain_text() -> None:
    with pytest.raises(pulumi.RunError) as failure:
        program(BASIC, encrypted=False)
    assert str(failure.value).splitlines()[1:] == [
        "prometheus.auth.accessKeySecret is in plain text in the settings file: remove it from the file, then run "
        "`pulumi config set --secret --path prometheus.auth.accessKeySecret`."
    ]


@pytest.mark.case("F5")
@pytest.mark.parametrize(
    ("prometheus", "sentence"),
    [
        (
            {"auth": {**BASIC, "accessKeySecret": f"{SECRET}\n"}},
            "prometheus.auth.accessKeySecret can't be used: must be visible",
        ),
        (
            {"auth": {**BASIC, "accessKeySecret": {"id": SECRET}}},
            "prometheus.auth.accessKeySecret can't be used: must be text",
        ),
        ({"auth": {**BASIC, "accessKeySecret": ""}}, "prometheus.auth.accessKeySecret is empty: must be visible"),
        ({"auth": SECRET}, "prometheus.auth can't be used: must be a map with the keys type, token,"),
        (SECRET, "prometheus can't be used: must be a map with the keys managedBy,"),
        ({"auth": {**BASIC, "secret": SECRET}}, "prometheus.auth.secret is not a setting"),
    ],
)
def test_no_message_shows_a_secret(prometheus: Any, sentence: str) -> None:
    values = {key.removeprefix("ackgpu:"): value for key, value in stack_config("rehearsal").items()}
    values = {key: value for key, value in values.items() if ":" not in key}
    with pytest.raises(SettingsError) as failure:
        parse({**values, "prometheus": prometheus})
    assert str(failure.value).startswith(sentence)
    assert SECRET not in str(failure.value)


def test_printed_settings_do_not_show_a_secret() -> None:
    values = {key.removeprefix("ackgpu:"): value for key, value in stack_config("rehearsal").items() if "ackgpu" in key}
    assert SECRET not in repr(parse({**values, "prometheus": {"auth": BASIC}}))


def test_the_rehearsal_reads_a_stack_file_with_encrypted_values(tmp_path: Path) -> None:
    content = yaml.safe_load((CHECKOUT / "Pulumi.rehearsal.yaml").read_text())
    content["config"]["ackgpu:prometheus"] = {
        "auth": {**BASIC, "accessKeySecret": {"secure": "v1:abc=:def"}},
    }
    (tmp_path / "Pulumi.rehearsal.yaml").write_text(yaml.safe_dump(content))
    assert rehearsed_settings(tmp_path).prometheus.auth.type == "basic"


def checked(*arguments: str, **answers: Any) -> tuple[Step, str | None]:
    """Run the check of a service's values while the adapter has none; return it with the header that it sent."""
    without_values = {
        VALUES: {"items": []},
        ADAPTER_PODS: {"items": [adapter_pod(f"--prometheus-url=<host>{PROMETHEUS}", *arguments)]},
    }
    with running({**healthy(), **without_values, **answers}) as cluster:
        step = list(check_stack(cluster.outputs, cluster.client))[3]
    return step, cluster.authorizations.get(query(RULE["seriesQuery"]))


@pytest.mark.case("F5")
def test_checks_use_the_adapters_credentials_and_report_a_refusal() -> None:
    found = {query(RULE["seriesQuery"]): series({"NamespaceName": "default", "PodName": "bert-1"})}
    step, sent = checked(f"--prometheus-header=Authorization={HEADER}", **found)
    assert sent == HEADER
    assert "the adapter has not found it yet" in step.observed
    step, sent = checked(f"--prometheus-header=Authorization={HEADER}", **{query(RULE["seriesQuery"]): (401, "")})
    assert "Prometheus refuses the adapter's credentials (401): set prometheus.auth." in step.observed
    assert HEADER not in step.observed


@pytest.mark.case("F5")
def test_an_instance_of_v2_accepts_only_its_access_key(tmp_path: Path) -> None:
    store = CloudStore(tmp_path / "cloud.json")
    store.create("c1", "cn-hangzhou", "1.36")
    assert store.read().allows_query("")
    require_access_key(store, "LTAI1", SECRET)
    assert [store.read().allows_query(header) for header in (HEADER, "", "Basic TFRBSTE6eA==")] == [True, False, False]
    assert SECRET not in (tmp_path / "cloud.json").read_text()
    require_no_credentials(store)
    assert store.read().allows_query("")
