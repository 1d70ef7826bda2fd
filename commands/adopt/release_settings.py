"""Settings for the adapter's live release. Its rules stay as they are where possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoscaling.metrics.adapter_rules import RULE_PRESETS, Rule, RulePreset
from autoscaling.metrics.adapter_values import RELIST_INTERVAL, RULES, STACK, value_at, without_own_values
from autoscaling.metrics.exposed_name import exposed_name
from autoscaling.settings import Settings
from commands.adopt.proposal import Proposal, may_be_secret
from live.helm_release import HelmRelease
from program.chart import chart_version

_KEY = "metricsAdapter"
_PROMETHEUS = ("AlibabaCloudMetricsAdapter", "prometheus")


def propose_release(proposal: Proposal, release: HelmRelease, settings: Settings, prometheus: str | None) -> None:
    """Propose the settings that keep a release as it is; `prometheus` is a secret address."""
    if release.status != "deployed":
        proposal.problems.append(
            f"release {release.name} is {release.status}. First repair the release with "
            f"`helm rollback {release.name} -n {release.namespace}`, or install it again."
        )
    stack = value_at(release.values, STACK)
    if stack:
        proposal.notes.append(
            f"stack {stack} installed release {release.name}. Only one stack may manage the release: first remove it "
            f"from stack {stack}, without deleting it."
        )
    proposal.settings[_KEY, "adopted"] = True
    _chart(proposal, release, settings)
    _rules(proposal, release, settings)
    _access(proposal, release, settings, prometheus)
    values = without_own_values(release.values)
    secret = list(_secrets(values, prometheus))
    if secret:
        proposal.problems.append(
            f"release {release.name} has values that may be secrets: {', '.join(secret)}. A settings file must not "
            "contain secrets. Move them to a Kubernetes Secret and remove them from the release."
        )
    elif values:
        proposal.settings[_KEY, "values"] = values
    interval = value_at(release.values, RELIST_INTERVAL)
    if interval:
        proposal.settings[_KEY, "relistInterval"] = str(interval)


def _chart(proposal: Proposal, release: HelmRelease, settings: Settings) -> None:
    chart = settings.metrics_adapter.chart
    version = chart_version(chart)
    if version in (None, release.version):
        return
    if "://" in chart:
        proposal.settings[_KEY, "chart"] = chart.replace(f"-{version}.tgz", f"-{release.version}.tgz")
        return
    proposal.problems.append(
        f"release {release.name} has chart version {release.version}, but metricsAdapter.chart has version {version}, "
        f"so `pulumi up` would reinstall the release. Set metricsAdapter.chart to version {release.version}."
    )


def _rules(proposal: Proposal, release: HelmRelease, settings: Settings) -> None:
    live: Sequence[Rule] = value_at(release.values, RULES) or []
    if value_at(release.values, (*RULES[:-1], "default")):
        proposal.notes.append(
            f"release {release.name} uses the adapter's default rules. The program would turn off these rules, which "
            "removes their metrics."
        )
    preset = _preset(live, settings)
    rule_set = replace(settings.rule_set, preset=preset or settings.metrics_adapter.rules)
    own = rule_set.rules()
    if preset:
        proposal.settings[_KEY, "rules"] = preset
    exposed = {metric.name for metric in rule_set.exposed} | {exposed_name(rule) for rule in own}
    written = [rule.as_written() for rule in settings.metrics_adapter.extra_rules]
    known = {exposed_name(rule) for rule in written}
    kept = [rule for rule in live if rule not in own and exposed_name(rule) not in exposed | known]
    if kept:
        proposal.settings[_KEY, "extraRules"] = [*written, *kept]
    replaced = sorted({str(exposed_name(rule)) for rule in live if rule not in own} & {str(name) for name in exposed})
    if replaced:
        proposal.notes.append(f"the program's own rules would replace the live rules for {', '.join(replaced)}.")
    if [*own, *written, *kept] != list(live):
        proposal.notes.append("the adapter would restart, because its rules or their order would change.")


def _preset(live: Sequence[Rule], settings: Settings) -> RulePreset | None:
    """Return the preset whose rules are all in the live list."""
    own = {preset: replace(settings.rule_set, preset=preset).rules() for preset in RULE_PRESETS}
    return next((preset for preset, rules in own.items() if all(rule in live for rule in rules)), None)


def _access(proposal: Proposal, release: HelmRelease, settings: Settings, prometheus: str | None) -> None:
    headers = value_at(release.values, (*_PROMETHEUS, "prometheusHeader")) or []
    authorization = next((str(header["Authorization"]) for header in headers if "Authorization" in header), None)
    if authorization and settings.prometheus.auth.type == "none":
        basic = authorization.startswith("Basic ")
        keys = "type basic, accessKeyId and accessKeySecret" if basic else "type token, and token"
        secret = "accessKeySecret" if basic else "token"
        proposal.problems.append(
            f"release {release.name} sends an Authorization header to Prometheus. Set prometheus.auth with "
            f"{keys}. Set the secret with `pulumi config set --secret --path prometheus.auth.{secret}`."
        )
    url = value_at(release.values, (*_PROMETHEUS, "url"))
    if prometheus and url and url != prometheus:
        proposal.notes.append(
            "the adapter does not use the cluster's Prometheus instance. The program would set the address of that "
            "instance."
        )


def _secrets(values: Any, prometheus: str | None, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the paths of values that may be secrets, by name or content."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from _secrets(value, prometheus, (*path, str(key)))
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield from _secrets(value, prometheus, (*path[:-1], f"{path[-1]}[{index}]"))
    elif values not in (None, "", True, False) and (
        any(may_be_secret(key) for key in path) or (prometheus and prometheus in str(values))
    ):
        yield ".".join(path)
