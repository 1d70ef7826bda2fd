"""What an operation of the engine shows and leaves behind, searched for the secrets of its cloud."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pulumi.automation import CommandError, CommandResult, PulumiCommand

from rehearsal.layout import Layout
from tests.engine.secret_search import Secret, in_files, secrets_of


class Shown:
    """The output of every engine command, but of those that ask for secrets."""

    def __init__(self) -> None:
        self.text = ""

    def in_the_open(self, layout: Layout, further: Sequence[Secret] = ()) -> list[str]:
        """Where a secret of the cloud that is up can be read: in the output, the state and its history, logs, reports.

        Args:
            layout: of the cloud.
            further: secrets besides the kubeconfig's key and the token of Prometheus' address.
        """
        secrets = [*secrets_of(layout), *further]
        told = [f"{one.name} in the output" for one in secrets if one.is_in(self.text.encode())]
        kept = [
            f"{name} in {path.relative_to(layout.checkout)}"
            for path, name in in_files(layout.checkout / "build", secrets)
            # The cloud itself has them, as docs/rehearsal.md says.
            if not path.is_relative_to(layout.cloud) or path.is_relative_to(layout.backend)
        ]
        return [*told, *sorted(set(kept))]


@contextmanager
def recorded() -> Iterator[Shown]:
    """Record what the Automation API's commands print meanwhile."""
    shown = Shown()
    run = PulumiCommand.run

    def listening(self: PulumiCommand, args: list[str], *more: Any, **named: Any) -> CommandResult:
        try:
            result = run(self, args, *more, **named)
        except CommandError as error:
            shown.text += str(error)
            raise
        if "--show-secrets" not in args:
            shown.text += result.stdout + result.stderr
        return result

    with mock.patch.object(PulumiCommand, "run", listening):
        yield shown
