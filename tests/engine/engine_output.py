"""Search the output and the files of engine operations for the secrets of their cloud."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pulumi.automation import CommandError, CommandResult, PulumiCommand

from rehearsal.layout import Layout
from tests.engine.secret_search import Secret, in_files, secrets_of


class EngineOutput:
    """The output of the engine's commands, except those with `--show-secrets`."""

    def __init__(self) -> None:
        self.text = ""

    def leaks(self, layout: Layout, more_secrets: Sequence[Secret] = ()) -> list[str]:
        """List the places of leaked secrets: the output, the state and its history, logs, reports.

        Args:
            layout: The layout of the running cloud.
            more_secrets: Secrets besides the kubeconfig's key and the token in the Prometheus address.
        """
        secrets = [*secrets_of(layout), *more_secrets]
        leaked = [f"{secret.name} in the output" for secret in secrets if secret.is_in(self.text.encode())]
        stored = [
            f"{name} in {path.relative_to(layout.checkout)}"
            for path, name in in_files(layout.checkout / "build", secrets)
            # The cloud itself stores them; see docs/rehearsal.md.
            if not path.is_relative_to(layout.cloud) or path.is_relative_to(layout.backend)
        ]
        return [*leaked, *sorted(set(stored))]


@contextmanager
def recorded_output() -> Iterator[EngineOutput]:
    """Record the output of the Automation API's commands during the `with` block."""
    output = EngineOutput()
    run = PulumiCommand.run

    def recording(self: PulumiCommand, args: list[str], *arguments: Any, **options: Any) -> CommandResult:
        try:
            result = run(self, args, *arguments, **options)
        except CommandError as error:
            output.text += str(error)
            raise
        if "--show-secrets" not in args:
            output.text += result.stdout + result.stderr
        return result

    with mock.patch.object(PulumiCommand, "run", recording):
        yield output
