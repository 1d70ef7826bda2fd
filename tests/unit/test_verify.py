"""Values that the checks read: quantities, `hey`'s summary and stack outputs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autoscaling.quantity import decimal
from live.verify import OutputsError, StackOutputs
from live.verify.load import responses_by_code
from tests.unit.program import Recorder, run_program, stack_config

HEY_SUMMARY = """
Summary:
  Total:	42.3397 secs

Status code distribution:
  [200]	9998 responses
  [503]	2 responses
"""


@pytest.mark.case("C1")
@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("1Ki", "1024"),
        ("4G", "4000000000"),
        ("19600m", "19.6"),
        ("0", "0"),
        ("20", "20"),
        ("22959m", "22.96"),
        ("100", "100"),
    ],
)
def test_quantities_are_printed_as_decimals(quantity: str, text: str) -> None:
    assert decimal(quantity) == text


def test_counts_the_responses_of_hey_by_status_code() -> None:
    assert responses_by_code(HEY_SUMMARY) == {200: 9998, 503: 2}


def test_the_checks_accept_the_programs_outputs() -> None:
    outputs = run_program(stack_config("rehearsal"), Recorder()).outputs
    # The engine passes integers as floats, but writes integers as JSON.
    services = [
        {**service, "minReplicas": int(service["minReplicas"]), "maxReplicas": int(service["maxReplicas"])}
        for service in outputs["services"]
    ]
    [service] = StackOutputs.of("rehearsal", {**outputs, "services": services}).services
    assert Decimal(service.metrics[0].target) == 20


def test_a_stack_without_outputs_needs_an_up_first() -> None:
    with pytest.raises(OutputsError, match=r"Stack dev has no outputs: run `pulumi up` on that stack first"):
        StackOutputs.of("dev", {})
    with pytest.raises(OutputsError, match=r"Output clusterId of stack dev is missing or not valid: run `pulumi up`"):
        StackOutputs.of("dev", {"metrics": []})
