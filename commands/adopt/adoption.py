"""Adopting from start to end: look, compare, propose settings, and write the files for `pulumi import`."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaling.settings import Settings, SettingsError
from autoscaling.settings.stack_file import check_file
from commands import CHECKOUT
from commands.adopt.account import look_at_account
from commands.adopt.effects import effects
from commands.adopt.import_files import Thing, import_files, which
from commands.adopt.inventory import Inventory, take_inventory
from commands.adopt.live_objects import ObjectFinder
from commands.adopt.plan import Plan, owned, preview
from commands.adopt.proposal import AdoptionError, different, with_settings
from commands.command_line import stack_file
from live.cluster_client import UnreachableError, connected

_COMPONENTS, _RESOURCES = "components.json", "resources.json"
_EXTRA_RULES = "metricsAdapter.extraRules"


@dataclass(frozen=True)
class Files:
    """A stack's settings file, and the folder for what adopts something."""

    settings: Path
    output: Path

    @classmethod
    def of(cls, stack: str) -> Files:
        """The files of a stack."""
        settings = stack_file(stack)
        return cls(settings, CHECKOUT / "build" / "adopt" / settings.name.split(".", 1)[1].removesuffix(".yaml"))

    @property
    def draft(self) -> Path:
        """The settings file as it must become."""
        return self.output / self.settings.name


def adopt_live(stack: str, files: Files, *, write: bool) -> None:
    """Print what was found and what to do next, and write the files for it.

    Raises:
        AdoptionError: nothing can be adopted; no import file was written.
        PulumiError: pulumi is missing, or the account can't be asked.
        SettingsError: the settings file can't be used.
    """
    # Files of an earlier run must not be imported.
    shutil.rmtree(files.output, ignore_errors=True)
    settings = _settings(files.settings)
    have = owned(stack)
    account = look_at_account(settings)
    try:
        with connected(account.kubeconfig) as client:
            finder = ObjectFinder(client)
            inventory = take_inventory(settings, account, finder.look(settings), have)
            print(*inventory.lines(), sep="\n")
            _require_something(inventory)
            before = files.settings.read_text("utf-8-sig")
            after = with_settings(before, different(inventory.proposal.settings, settings))
            if not inventory.things and before == after:
                print("", "The stack already has all that was found.", sep="\n")
                return
            files.output.mkdir(parents=True)
            files.draft.write_text(after, encoding="utf-8")
            if before != after:
                heading = f"The settings that keep it, {_shown(files.draft)}:"
                print("", heading, *_difference(files, before, after), sep="\n")
            _check(files, inventory)
            imports = _imports(stack, files, inventory, finder) if inventory.things else []
    except UnreachableError as error:
        raise AdoptionError(f"The cluster {error}.") from None
    if write and before != after:
        _replace(files.settings, after)
    written = write or before == after
    print("", "Next:", *_next(files, imports, stack, written=written), sep="\n")


def _settings(path: Path) -> Settings:
    settings = check_file(path).settings
    if settings.platform:
        raise AdoptionError(f"platform is {settings.platform!r}: adopt in the stack that has the platform.")
    if settings.cluster.id is None:
        raise AdoptionError("cluster.create makes a new cluster, with nothing to adopt in it: set cluster.id.")
    return settings


def _require_something(inventory: Inventory) -> None:
    if not inventory.found and not inventory.owned:
        raise AdoptionError(
            "Nothing was found under the names in the settings: set the names that the live resources have, or run "
            "`pulumi up` to create new ones."
        )
    if inventory.proposal.problems:
        raise AdoptionError("\n".join(["", "Cannot be adopted as it is:", *inventory.proposal.problems]))


def _imports(stack: str, files: Files, inventory: Inventory, finder: ObjectFinder) -> list[str]:
    """Print what `pulumi up` would change, and write the import files; returns their names."""
    plan = preview(stack, files.draft)
    _refuse_losses(plan)
    notes = [*inventory.proposal.notes, *_effects(plan, inventory.things, finder)]
    if notes:
        print("", "What `pulumi up` would change:", *notes, sep="\n")
    return _write_imports(files.output, plan, inventory.things)


def _check(files: Files, inventory: Inventory) -> None:
    try:
        check_file(files.draft)
    except SettingsError as error:
        # Each begins with the file's name, which is the name of the user's own file too.
        faults = [f"{_shown(files.output)}/{fault}" for fault in error.faults]
        raise AdoptionError(
            "\n".join(["", "These settings can't be used:", *faults, *_ways_out(faults, files, inventory)])
        ) from None


def _ways_out(faults: Sequence[str], files: Files, inventory: Inventory) -> Iterator[str]:
    of_rules = [fault for fault in faults if _EXTRA_RULES in fault]
    if of_rules:
        yield (
            "Rewrite a refused rule in the release, or remove it there, before the program can keep it: README.md says "
            "what a rule must look like."
        )
    if len(of_rules) < len(faults):
        hpas = [name for kind, *name in inventory.things if kind == "HorizontalPodAutoscaler"]
        command = ", such as `kubectl edit hpa -n {} {}`".format(*hpas[0]) if hpas else ""
        yield (
            f"The lines with a + are the live values, which replace those in {files.settings.name}: change them where "
            f"they are (the pool in the ACK console, Deployment, Service and HPA by kubectl{command}), and run "
            "`./ackgpu adopt` again."
        )


def _refuse_losses(plan: Plan) -> None:
    lost = [urn.rpartition("::")[2] for urn, step in plan.steps.items() if "delete" in step.op or "replace" in step.op]
    if lost:
        raise AdoptionError(
            f"\nWith these settings the stack would delete or replace what it has: {', '.join(sorted(lost))}. Run "
            "`pulumi up` first, then adopt."
        )


def _effects(plan: Plan, things: Mapping[tuple[str, ...], Thing], finder: ObjectFinder) -> Iterator[str]:
    for step in plan.steps.values():
        thing = things.get(which(step))
        if thing and isinstance(thing.live, Mapping):
            yield from effects(thing.live, finder.as_served(step.inputs))


def _difference(files: Files, before: str, after: str) -> Iterator[str]:
    names = files.settings.name, _shown(files.draft)
    return difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=2)


def _write_imports(output: Path, plan: Plan, things: Mapping[tuple[str, ...], Thing]) -> list[str]:
    written = []
    for name, content in zip((_COMPONENTS, _RESOURCES), import_files(plan, things), strict=True):
        if content:
            # One of them has the kubeconfig, encrypted as in the state.
            descriptor = os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(content, file, indent=2)
            written.append(name)
    return written


def _next(files: Files, names: Sequence[str], stack: str, *, written: bool) -> Iterator[str]:
    if Path.cwd() != CHECKOUT:
        yield f"  cd {shlex.quote(str(CHECKOUT))}"
    # Import first: with these settings alone `up` would make a second node pool of the same name.
    for name in names:
        yield f"  pulumi import --stack {stack} --file {_shown(files.output / name)} --generate-code=false"
    if not written:
        yield f"  cp {_shown(files.draft)} {files.settings.name}"
    yield f"  pulumi preview --stack {stack}"
    yield f"  pulumi up --stack {stack}"


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _shown(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))
