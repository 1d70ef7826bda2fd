"""The steps of adopting: find resources, propose settings and write files for `pulumi import`."""

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
from commands.account_query import read_account
from commands.adopt.effects import effects
from commands.adopt.import_files import import_files, resource_key
from commands.adopt.inventory import Inventory, take_inventory
from commands.adopt.live_objects import read_live_objects, with_server_defaults
from commands.adopt.plan import Plan, owned_resources, preview
from commands.adopt.proposal import AdoptionError, changed_settings, with_settings
from commands.command_line import stack_file
from live.cluster_client import ClusterClient, UnreachableError, connected

_COMPONENTS, _RESOURCES = "components.json", "resources.json"
_EXTRA_RULES = "metricsAdapter.extraRules"


def adopt_live(stack: str, *, write: bool) -> None:
    """Print the live resources and the next commands, and write the import files.

    Raises:
        AdoptionError: nothing can be adopted; no import file was written.
        HelmReleaseError: the adapter's release can't be read.
        PulumiError: pulumi is missing, or the account can't be read.
        SettingsError: the settings file can't be used.
    """
    path = stack_file(stack)
    draft = CHECKOUT / "build" / "adopt" / path.name.split(".", 1)[1].removesuffix(".yaml") / path.name
    # The user must not import files of an earlier run.
    shutil.rmtree(draft.parent, ignore_errors=True)
    settings = _settings(path)
    owned = owned_resources(stack)
    account = read_account(settings)
    try:
        with connected(account.kubeconfig) as client:
            inventory = take_inventory(settings, account, read_live_objects(client, settings), owned)
            print(*inventory.lines(), sep="\n")
            _require_resources(inventory)
            before = path.read_text("utf-8-sig")
            after = with_settings(before, changed_settings(inventory.proposal.settings, settings))
            if not inventory.importable and before == after:
                print("", "Nothing to adopt: the stack already has every live resource.", sep="\n")
                return
            draft.parent.mkdir(parents=True)
            draft.write_text(after, encoding="utf-8")
            if before != after:
                names = path.name, _relative(draft)
                difference = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=2)
                print(
                    "", f"Settings that keep these resources as they are, in {_relative(draft)}:", *difference, sep="\n"
                )
            _check(draft, inventory)
            imports = _imports(stack, draft, inventory, client) if inventory.importable else []
    except UnreachableError as error:
        raise AdoptionError(f"The cluster {error}.") from None
    if write:
        shutil.copyfile(draft, path)
    written = write or before == after
    print("", "Next:", *_next(draft, imports, stack, written=written), sep="\n")


def _settings(path: Path) -> Settings:
    settings = check_file(path).settings
    if settings.platform:
        raise AdoptionError(
            f"`platform` is {settings.platform!r}: this stack uses the platform of that stack. Run `./ackgpu adopt` "
            "for that stack."
        )
    if settings.cluster.id is None:
        raise AdoptionError("cluster.create creates a new cluster, which has nothing to adopt. Set cluster.id instead.")
    return settings


def _require_resources(inventory: Inventory) -> None:
    if not inventory.found and not inventory.owned:
        raise AdoptionError(
            "Found no resources with the names in the settings. Set the names of the live resources, or run "
            "`pulumi up` to create new resources."
        )
    if inventory.proposal.problems:
        raise AdoptionError(
            "\n".join(["", "These resources can't be adopted as they are:", *inventory.proposal.problems])
        )


def _imports(stack: str, draft: Path, inventory: Inventory, client: ClusterClient) -> list[Path]:
    """Print the changes that `pulumi up` would make, and write the import files."""
    plan = preview(stack, draft)
    _refuse_losses(plan)
    notes = inventory.proposal.notes
    for step in plan.steps.values():
        resource = inventory.importable.get(resource_key(step))
        if resource and isinstance(resource.live, Mapping):
            notes += effects(resource.live, with_server_defaults(client, step.inputs))
    if notes:
        print("", "What `pulumi up` would change:", *notes, sep="\n")
    written = []
    for name, content in zip((_COMPONENTS, _RESOURCES), import_files(plan, inventory.importable), strict=True):
        if content:
            path = draft.with_name(name)
            # One file has the kubeconfig, encrypted as in the state.
            path.touch(0o600)
            path.write_text(json.dumps(content, indent=2), encoding="utf-8")
            written.append(path)
    return written


def _check(draft: Path, inventory: Inventory) -> None:
    try:
        check_file(draft)
    except SettingsError as error:
        # A fault begins with the file name only; the user's own file has the same name.
        faults = [f"{_relative(draft.parent)}/{fault}" for fault in error.faults]
        fixes = _fixes(faults, draft.name, inventory)
        raise AdoptionError("\n".join(["", "These settings are not valid:", *faults, *fixes])) from None


def _fixes(faults: Sequence[str], settings: str, inventory: Inventory) -> Iterator[str]:
    rule_faults = [fault for fault in faults if _EXTRA_RULES in fault]
    if rule_faults:
        yield (
            "Change or remove each refused rule in the release, then run `./ackgpu adopt` again. docs/metrics.md "
            "describes the allowed rules."
        )
    if len(rule_faults) < len(faults):
        hpas = [name for kind, *name in inventory.importable if kind == "HorizontalPodAutoscaler"]
        command = ", such as `kubectl edit hpa -n {} {}`".format(*hpas[0]) if hpas else ""
        yield (
            f"Lines with a + show live values, which replace those in {settings}. Change the live values that are not "
            f"valid: the node pool in the ACK console; the Deployment, Service and HPA with kubectl{command}. Then run "
            "`./ackgpu adopt` again."
        )


def _refuse_losses(plan: Plan) -> None:
    lost = [urn.rpartition("::")[2] for urn, step in plan.steps.items() if "delete" in step.op or "replace" in step.op]
    if lost:
        raise AdoptionError(
            f"\nWith these settings the stack would delete or replace its own resources: {', '.join(sorted(lost))}. "
            "Run `pulumi up` first, then adopt."
        )


def _next(draft: Path, imports: Sequence[Path], stack: str, *, written: bool) -> Iterator[str]:
    if Path.cwd() != CHECKOUT:
        yield f"  cd {shlex.quote(str(CHECKOUT))}"
    # Import first: otherwise `up` would create a second node pool with the same name.
    for path in imports:
        yield f"  pulumi import --stack {stack} --file {_relative(path)} --generate-code=false"
    if not written:
        yield f"  cp {_relative(draft)} {draft.name}"
    yield f"  pulumi preview --stack {stack}"
    yield f"  pulumi up --stack {stack}"


def _relative(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))
