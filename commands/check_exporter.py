"""`./ackgpu check-exporter`: whether an HPA can work on a GPU exporter."""

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
    "--labels", default="ack", show_default=True, callback=_preset, help="As in the setting metricsAdapter.labels."
)
def check_exporter(file: TextIO, labels: LabelPreset) -> int:
    """Check whether an HPA can work on a GPU exporter.

    FILE has the answer of the exporter's /metrics; - reads the standard input. Exit code: 0 where an HPA can work,
    1 where it can't, 2 where FILE can't be judged.
    """
    from autoscaling.metrics.exporter_dump import DumpError, judge

    try:
        judgement = judge(file.read(), labels)
    except UnicodeDecodeError:
        raise CommandError("The dump is not UTF-8 text: save the exporter's /metrics.", exit_code=2) from None
    except DumpError as error:
        raise CommandError(f"The dump can't be judged. {error}", exit_code=2) from None
    print(judgement.text)
    return 0 if judgement.usable else 1
