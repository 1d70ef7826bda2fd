"""`./ackgpu check-exporter`: check whether a GPU exporter's metrics can drive an HPA."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import click

from commands.command_line import CommandError, examples

if TYPE_CHECKING:
    from autoscaling.metrics.catalogue import LabelPreset


def _preset(context: click.Context, parameter: click.Parameter, value: str) -> LabelPreset:
    from autoscaling.metrics.catalogue import LABEL_PRESETS

    return click.Choice(LABEL_PRESETS).convert(value, parameter, context)


@click.command(
    "check-exporter",
    epilog=examples("check-exporter metrics.txt", "check-exporter --labels upstream - < metrics.txt"),
)
@click.argument("file", type=click.File())
@click.option(
    "--labels",
    default="ack",
    show_default=True,
    callback=_preset,
    help="Labels of the metrics, as in metricsAdapter.labels.",
)
def check_exporter(file: TextIO, labels: LabelPreset) -> int:
    """Check whether an exporter's metrics can drive an HPA.

    FILE is a copy of the exporter's /metrics page; - reads standard input. Exit code: 0 if an HPA can use the metrics,
    1 if it can't, 2 if FILE can't be read.
    """
    from autoscaling.metrics.exporter_dump import DumpError, judge

    try:
        judgement = judge(file.read(), labels)
    except UnicodeDecodeError:
        raise CommandError(
            "FILE is not UTF-8 text. Pass a saved copy of the exporter's /metrics page.", exit_code=2
        ) from None
    except DumpError as error:
        raise CommandError(f"FILE can't be used. {error}", exit_code=2) from None
    print(judgement.text)
    return 0 if judgement.usable else 1
