"""The kubeconfig uses the endpoint from the settings."""

from __future__ import annotations

import pulumi
import pytest
import trustme
import yaml

from live.api_endpoint import ApiEndpoints, server_of
from rehearsal.control_plane.kubeconfigs import certificate_user, kubeconfig

INTERNET, INTRANET = "https://203.0.113.7:6443", "https://10.0.0.9:6443"
BOTH = ApiEndpoints(INTERNET, INTRANET)
AUTHORITY = trustme.CA()
CONTENT = kubeconfig(INTERNET, AUTHORITY.cert_pem.bytes(), certificate_user(AUTHORITY, "kubernetes-admin")).decode()


def test_a_kubeconfig_with_the_endpoint_keeps_its_white_space() -> None:
    content = CONTENT.replace("server: ", "server:   ")
    assert BOTH.apply_to(content, "internet") == content


def test_changes_only_the_server_for_the_other_endpoint() -> None:
    changed = BOTH.apply_to(CONTENT, "intranet")
    assert server_of(changed) == INTRANET
    expected = yaml.safe_load(CONTENT)
    expected["clusters"][0]["cluster"]["server"] = INTRANET
    assert yaml.safe_load(changed) == expected
    assert BOTH.apply_to(changed, "internet") != changed


@pytest.mark.parametrize(
    ("endpoints", "endpoint", "message"),
    [
        (
            ApiEndpoints(intranet=INTRANET),
            "internet",
            "cluster.apiEndpoint is internet, .* Set .* to intranet",
        ),
        (
            ApiEndpoints(internet=INTERNET),
            "intranet",
            "cluster.apiEndpoint is intranet, .* Set .* to internet",
        ),
        (ApiEndpoints(), "intranet", "cluster.apiEndpoint is intranet, .* Set .* to internet"),
    ],
)
def test_refuses_an_endpoint_that_the_cluster_lacks(endpoints: ApiEndpoints, endpoint: str, message: str) -> None:
    with pytest.raises(pulumi.RunError, match=message):
        endpoints.apply_to(CONTENT, endpoint)


def test_keeps_the_server_if_ack_reports_no_addresses() -> None:
    assert ApiEndpoints().apply_to(CONTENT, "internet") == CONTENT


@pytest.mark.parametrize("content", ["", "text", "[1]", "clusters: []", "clusters: [{}]", "a: [", "[" * 5000])
def test_leaves_an_invalid_kubeconfig_unchanged(content: str) -> None:
    assert BOTH.apply_to(content, "intranet") == content
    assert server_of(content) == ""
