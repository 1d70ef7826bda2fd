"""The kubeconfig leads to the endpoint that the settings choose."""

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


def test_one_that_leads_there_already_is_not_touched_by_a_blank() -> None:
    written = CONTENT.replace("server: ", "server:   ")
    assert BOTH.apply_to(written, "internet") == written


def test_nothing_but_the_server_differs_for_the_other_endpoint() -> None:
    changed = BOTH.apply_to(CONTENT, "intranet")
    assert server_of(changed) == INTRANET
    expected = yaml.safe_load(CONTENT)
    expected["clusters"][0]["cluster"]["server"] = INTRANET
    assert yaml.safe_load(changed) == expected
    assert BOTH.apply_to(changed, "internet") != changed


@pytest.mark.parametrize(
    ("endpoints", "wanted", "told"),
    [
        (ApiEndpoints(intranet=INTRANET), "internet", "cluster.apiEndpoint is internet, .* Set it to intranet"),
        (ApiEndpoints(internet=INTERNET), "intranet", "cluster.apiEndpoint is intranet, .* Set it to internet"),
        (ApiEndpoints(), "intranet", "cluster.apiEndpoint is intranet, .* Set it to internet"),
    ],
)
def test_an_endpoint_that_the_cluster_does_not_have_is_told(endpoints: ApiEndpoints, wanted: str, told: str) -> None:
    with pytest.raises(pulumi.RunError, match=told):
        endpoints.apply_to(CONTENT, wanted)


def test_where_no_address_is_told_the_kubeconfig_leads_where_it_does() -> None:
    assert ApiEndpoints().apply_to(CONTENT, "internet") == CONTENT


@pytest.mark.parametrize("content", ["", "text", "[1]", "clusters: []", "clusters: [{}]", "a: [", "[" * 5000])
def test_a_kubeconfig_of_another_shape_is_left_to_those_who_use_it(content: str) -> None:
    assert BOTH.apply_to(content, "intranet") == content
    assert server_of(content) == ""
