"""Ends `pulumi up` only when the HPAs read their metrics, or says which link of the pipeline is broken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi


def prove_pipeline(
    outputs: Mapping[str, pulumi.Input[Any]], kubeconfig: pulumi.Input[str], *, wait_seconds: int
) -> None:
    """At each `up`, changed or not, wait for every HPA of the outputs to be `ScalingActive` with a reading.

    No resource, since a pipeline breaks without a change of any input. Nothing happens at preview.

    Args:
        outputs: what the stack exports, as `live.checks.StackOutputs` reads it.
        kubeconfig: of the cluster; a secret.
        wait_seconds: how long to wait before the operation fails with the broken link; 0: not at all.
    """
    if wait_seconds == 0 or pulumi.runtime.is_dry_run():
        return
    # A second that a preview has better uses for.
    from live.checks import StackOutputs
    from live.checks.proof import NotProvenError, wait_until_proven

    def tell(sentence: str) -> None:
        pulumi.log.info(f"waiting until the metrics can be read. {sentence}", ephemeral=True)

    async def prove(known: list[Any]) -> bool:
        try:
            await wait_until_proven(StackOutputs.of("of the program", known[0]), known[1], wait_seconds, tell)
        except NotProvenError as error:
            raise pulumi.RunError(
                f"after {wait_seconds} s the metrics can't be read. {error} Mend it and run pulumi up again; "
                "where a change must go through meanwhile, set waitForMetrics to 0s."
            ) from None
        return True

    _proof: pulumi.Output[bool] = pulumi.Output.all(outputs, kubeconfig).apply(prove)
