"""`python -m commands.adopt --stack dev [--write]`: take over by the stack what is there already."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaling.metrics.extra_rule_checks import EXTRA_RULES
from autoscaling.settings import Settings, SettingsError
from autoscaling.settings.checked_file import check_file
from commands import CHECKOUT
from commands.adopt.account import look_at_account
from commands.adopt.effects import effects
from commands.adopt.engine import owned
from commands.adopt.findings import Findings, different, findings
from commands.adopt.import_files import Thing, import_files, which
from commands.adopt.live import LiveCluster
from commands.adopt.part import AdoptionError
from commands.adopt.plan import Plan, preview
from commands.adopt.stack_text import with_settings
from live.cluster_client import UnreachableError, connected

_COMPONENTS, _RESOURCES = "components.json", "resources.json"


@dataclass(frozen=True)
class _Files:
    """Where a stack's settings are, and where what adopts something goes."""

    settings: Path
    output: Path

    @property
    def draft(self) -> Path:
        """The stack file as it must become."""
        return self.output / self.settings.name


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was found and what to do next, and write the files for it; 1 where nothing can be adopted."""
    parser = argparse.ArgumentParser(prog="python -m commands.adopt", description="Adopt what is there already.")
    parser.add_argument("--stack", required=True, help="name of the stack")
    parser.add_argument("--write", action="store_true", help="also change the stack's file")
    given = parser.parse_args(arguments)
    # Pulumi Cloud's stacks also go by <organisation>/<project>/<stack>.
    name = given.stack.rpartition("/")[2]
    files = _Files(CHECKOUT / f"Pulumi.{name}.yaml", CHECKOUT / "build" / "adopt" / name)
    # What is left of an earlier run must not be imported.
    shutil.rmtree(files.output, ignore_errors=True)
    try:
        adopt(given.stack, files, write=given.write)
    except UnreachableError as error:
        print(f"The cluster {error}.", file=sys.stderr)
        return 1
    except (AdoptionError, SettingsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def adopt(stack: str, files: _Files, *, write: bool) -> None:
    """Look, tell, and write.

    Raises:
        AdoptionError: nothing can be adopted; no import file was written.
        SettingsError: the stack's file can't be used.
        UnreachableError: the cluster does not answer.
    """
    settings = _settings(files.settings)
    have = owned(stack)
    account = look_at_account(settings)
    with connected(account.kubeconfig) as client:
        cluster = LiveCluster(client)
        found = findings(settings, account, cluster.look(settings), have)
        print(*found.lines(), sep="\n", flush=True)
        _require_something(found)
        before = files.settings.read_text("utf-8-sig")
        after = with_settings(before, different(found.part.settings, settings))
        if not found.things and before == after:
            print("", "All that was found is in the stack already.", sep="\n")
            return
        files.output.mkdir(parents=True)
        files.draft.write_text(after, encoding="utf-8")
        if before != after:
            told = f"The settings that keep it, {_shown(files.draft)}:"
            print("", told, *_difference(files, before, after), sep="\n", flush=True)
        _check(files, found)
        imports = _imports(stack, files, found, cluster) if found.things else []
    if write and before != after:
        _replace(files.settings, after)
    taken = write or before == after
    print("", "Next:", *_next(files, imports, stack, taken=taken), sep="\n")


def _settings(path: Path) -> Settings:
    settings = check_file(path).settings
    if settings.platform:
        raise AdoptionError(
            f"platform is {settings.platform!r}: adopt what is there in a stack that has a platform of its own."
        )
    if settings.cluster.id is None:
        raise AdoptionError("cluster.create makes a new cluster, and there is nothing in it to adopt: set cluster.id.")
    return settings


def _require_something(found: Findings) -> None:
    if not found.found and not found.owned:
        raise AdoptionError(
            "Nothing of this stack is there yet under the names of its settings: set those that are meant, or let "
            "`pulumi up` make it."
        )
    if found.part.problems:
        raise AdoptionError("\n".join(["", "What can't be adopted as it is:", *found.part.problems]))


def _imports(stack: str, files: _Files, found: Findings, cluster: LiveCluster) -> list[str]:
    """Write the import files, and tell what comes after them; returns their names."""
    plan = preview(stack, files.draft)
    _refuse_losses(plan)
    notes = [*found.part.notes, *_effects(plan, found.things, cluster)]
    if notes:
        print("", "What `pulumi up` would change:", *notes, sep="\n")
    return _write_imports(files.output, plan, found.things)


def _check(files: _Files, found: Findings) -> None:
    try:
        check_file(files.draft)
    except SettingsError as error:
        # Each begins with the name of the file, which the user's own has too.
        faults = [f"{_shown(files.output)}/{fault}" for fault in error.faults]
        raise AdoptionError(
            "\n".join(["", "These settings can't be used:", *faults, *_ways_out(faults, files, found)])
        ) from None


def _ways_out(faults: Sequence[str], files: _Files, found: Findings) -> Iterator[str]:
    of_rules = [fault for fault in faults if EXTRA_RULES in fault]
    if of_rules:
        yield (
            "A rule that is refused has to be rewritten in the release, or taken out of it, before the program can "
            "keep it: README.md has what it must look like."
        )
    if len(of_rules) < len(faults):
        hpas = [name for kind, *name in found.things if kind == "HorizontalPodAutoscaler"]
        command = ", such as `kubectl edit hpa -n {} {}`".format(*hpas[0]) if hpas else ""
        yield (
            f"The lines with a + are what is live, and are written over what {files.settings.name} says: change them "
            f"where they are (the pool in the ACK console, Deployment, Service and HPA by kubectl{command}), and run "
            "`make adopt` again."
        )


def _refuse_losses(plan: Plan) -> None:
    lost = [urn.rpartition("::")[2] for urn, step in plan.steps.items() if "delete" in step.op or "replace" in step.op]
    if lost:
        raise AdoptionError(
            f"\nWith these settings the stack would delete or replace what it has: {', '.join(sorted(lost))}. Bring it "
            "to rest with `pulumi up`, and then adopt."
        )


def _effects(plan: Plan, things: Mapping[tuple[str, ...], Thing], cluster: LiveCluster) -> Iterator[str]:
    for step in plan.steps.values():
        thing = things.get(which(step))
        if thing and isinstance(thing.live, Mapping):
            yield from effects(thing.live, cluster.as_served(step.inputs))


def _difference(files: _Files, before: str, after: str) -> Iterator[str]:
    names = files.settings.name, _shown(files.draft)
    return difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=2)


def _write_imports(output: Path, plan: Plan, things: Mapping[tuple[str, ...], Thing]) -> list[str]:
    written = []
    for name, content in zip((_COMPONENTS, _RESOURCES), import_files(plan, things), strict=True):
        if content:
            # The kubeconfig is in one of them, encrypted as in the state.
            descriptor = os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=2)
            written.append(name)
    return written


def _next(files: _Files, names: Sequence[str], stack: str, *, taken: bool) -> Iterator[str]:
    # Imported first: on these settings alone `up` would make a second node pool of the same name.
    for name in names:
        yield f"  pulumi import --stack {stack} --file {_shown(files.output / name)} --generate-code=false"
    if not taken:
        yield f"  cp {_shown(files.draft)} {files.settings.name}"
    yield f"  pulumi preview --stack {stack}"
    yield f"  pulumi up --stack {stack}"


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _shown(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


if __name__ == "__main__":
    sys.exit(main())
