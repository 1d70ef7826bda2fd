"""Adopting from start to end: look, compare, propose settings, and write the files for `pulumi import`."""

from __future__ import annotations

import difflib
import json
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from autoscaling.settings import Settings, SettingsError
from autoscaling.settings.stack_file import check_file
from commands import CHECKOUT
from commands.account_query import look_at_account
from commands.adopt.effects import effects
from commands.adopt.import_files import import_files, which
from commands.adopt.inventory import Inventory, take_inventory
from commands.adopt.live_objects import as_served, look
from commands.adopt.plan import Plan, owned, preview
from commands.adopt.proposal import AdoptionError, different, with_settings
from commands.command_line import stack_file
from live.cluster_client import ClusterClient, UnreachableError, connected

_COMPONENTS, _RESOURCES = "components.json", "resources.json"
_EXTRA_RULES = "metricsAdapter.extraRules"


def adopt_live(stack: str, *, write: bool) -> None:
    """Print what was found and what to do next, and write the files for it.

    Raises:
        AdoptionError: nothing can be adopted; no import file was written.
        HelmReleaseError: the adapter's release can't be read.
        PulumiError: pulumi is missing, or the account can't be asked.
        SettingsError: the settings file can't be used.
    """
    path = stack_file(stack)
    draft = CHECKOUT / "build" / "adopt" / path.name.split(".", 1)[1].removesuffix(".yaml") / path.name
    # Files of an earlier run must not be imported.
    shutil.rmtree(draft.parent, ignore_errors=True)
    settings = _settings(path)
    have = owned(stack)
    account = look_at_account(settings)
    try:
        with connected(account.kubeconfig) as client:
            inventory = take_inventory(settings, account, look(client, settings), have)
            print(*inventory.lines(), sep="\n")
            _require_something(inventory)
            before = path.read_text("utf-8-sig")
            after = with_settings(before, different(inventory.proposal.settings, settings))
            if not inventory.things and before == after:
                print("", "The stack already has all that was found.", sep="\n")
                return
            draft.parent.mkdir(parents=True)
            draft.write_text(after, encoding="utf-8")
            if before != after:
                names = path.name, _shown(draft)
                difference = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=2)
                print("", f"The settings that keep it, {_shown(draft)}:", *difference, sep="\n")
            _check(draft, inventory)
            imports = _imports(stack, draft, inventory, client) if inventory.things else []
    except UnreachableError as error:
        raise AdoptionError(f"The cluster {error}.") from None
    if write:
        shutil.copyfile(draft, path)
    written = write or before == after
    print("", "Next:", *_next(draft, imports, stack, written=written), sep="\n")


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


def _imports(stack: str, draft: Path, inventory: Inventory, client: ClusterClient) -> list[Path]:
    """Print what `pulumi up` would change, and write the import files."""
    plan = preview(stack, draft)
    _refuse_losses(plan)
    notes = inventory.proposal.notes
    for step in plan.steps.values():
        thing = inventory.things.get(which(step))
        if thing and isinstance(thing.live, Mapping):
            notes += effects(thing.live, as_served(client, step.inputs))
    if notes:
        print("", "What `pulumi up` would change:", *notes, sep="\n")
    written = []
    for name, content in zip((_COMPONENTS, _RESOURCES), import_files(plan, inventory.things), strict=True):
        if content:
            path = draft.with_name(name)
            # One of them has the kubeconfig, encrypted as in the state.
            path.touch(0o600)
            path.write_text(json.dumps(content, indent=2), encoding="utf-8")
            written.append(path)
    return written


def _check(draft: Path, inventory: Inventory) -> None:
    try:
        check_file(draft)
    except SettingsError as error:
        # Each begins with the file's name, which is the name of the user's own file too.
        faults = [f"{_shown(draft.parent)}/{fault}" for fault in error.faults]
        ways_out = _ways_out(faults, draft.name, inventory)
        raise AdoptionError("\n".join(["", "These settings can't be used:", *faults, *ways_out])) from None


def _ways_out(faults: Sequence[str], settings: str, inventory: Inventory) -> Iterator[str]:
    of_rules = [fault for fault in faults if _EXTRA_RULES in fault]
    if of_rules:
        yield (
            "Rewrite a refused rule in the release, or remove it there, before the program can keep it. "
            "docs/metrics.md says what a rule must look like."
        )
    if len(of_rules) < len(faults):
        hpas = [name for kind, *name in inventory.things if kind == "HorizontalPodAutoscaler"]
        command = ", such as `kubectl edit hpa -n {} {}`".format(*hpas[0]) if hpas else ""
        yield (
            f"The lines with a + are the live values, which replace those in {settings}: change them where "
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


def _next(draft: Path, imports: Sequence[Path], stack: str, *, written: bool) -> Iterator[str]:
    if Path.cwd() != CHECKOUT:
        yield f"  cd {shlex.quote(str(CHECKOUT))}"
    # Import first: with these settings alone `up` would make a second node pool of the same name.
    for path in imports:
        yield f"  pulumi import --stack {stack} --file {_shown(path)} --generate-code=false"
    if not written:
        yield f"  cp {_shown(draft)} {draft.name}"
    yield f"  pulumi preview --stack {stack}"
    yield f"  pulumi up --stack {stack}"


def _shown(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))
