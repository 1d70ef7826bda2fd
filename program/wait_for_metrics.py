"""Let `pulumi up` finish only when the HPAs read their metrics, or report the broken link of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi


def prove_pipeline(
    outputs: Mapping[str, pulumi.Input[Any]], kubeconfig: pulumi.Input[str], *, wait_seconds: int
) -> None:
    """Wait at each `up` until every HPA of the outputs is `ScalingActive` with a reading.

    This is not a resource, because a pipeline can break without a change of any input. Do nothing at preview.

    Args:
        outputs: the stack's outputs, in the form that `live.verify.StackOutputs` reads.
        kubeconfig: the cluster's kubeconfig; a secret.
        wait_seconds: time until the operation fails and reports the broken link; with 0, do not wait.
    """
    if wait_seconds == 0 or pulumi.runtime.is_dry_run():
        return
    # Imported late: it takes a second that a preview does not need.
    from live.verify import StackOutputs
    from live.verify.wait import NoMetricsError, wait_until_metrics_are_read

    def report(sentence: str) -> None:
        pulumi.log.info(f"waiting until the metrics can be read. {sentence}", ephemeral=True)

    async def prove(known: list[Any]) -> bool:
        try:
            await wait_until_metrics_are_read(
                StackOutputs.of("of the program", known[0]), known[1], wait_seconds, report
            )
        except NoMetricsError as error:
            raise pulumi.RunError(
                f"the metrics still can't be read after {wait_seconds} s. {error} Fix this and run `pulumi up` again, "
                "or set waitForMetrics to 0s to skip this check."
            ) from None
        return True

    _proof: pulumi.Output[bool] = pulumi.Output.all(outputs, kubeconfig).apply(prove)
