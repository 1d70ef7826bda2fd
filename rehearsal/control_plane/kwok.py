"""How kwok plays the kubelet: the Stages it is given.

A Stage says from which state of an object kwok goes on to which, and after how long. The delays stand for what
takes minutes on a real GPU node; the boot of a node is in `node_pools`.
"""

from __future__ import annotations

from typing import Any

import yaml

from autoscaling.ack.card_modes import GPU_MEMORY, WHOLE_GPU

POD_START_SECONDS = 0.3
"""From a pod's binding to its containers running."""
GPU_POD_START_SECONDS = 3.0
"""The same for a pod that pulls a large image and loads a model."""
POD_STOP_SECONDS = 1.0
"""From a pod's deletion to its end."""
NODE_ANNOTATION = ("kwok.x-k8s.io/node", "fake")
"""Marks the nodes that kwok plays."""
SERVING_GATE = "rehearsal.ackgpu/Serving"
"""Readiness gate of a pod whose process really runs on the host."""

_NODE_READY = """
{{ $now := Now }}
allocatable:
{{ YAML .status.capacity 1 }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
phase: Running
"""

_POD_RUNNING = """
{{ $now := Now }}
{{ $ready := "True" }}
{{ range .spec.readinessGates }}{{ $ready = "False" }}{{ end }}
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: {{ $ready | Quote }}, lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""

_ALIVE = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
_GPU_LIMIT = f'.spec.containers.[].resources.limits | .["{WHOLE_GPU}"] // .["{GPU_MEMORY}"]'


def _condition(kind: str, operator: str, value: str) -> dict[str, Any]:
    return {
        "key": f'.status.conditions.[] | select( .type == "{kind}" ) | .status',
        "operator": operator,
        "values": [value],
    }


def _stage(
    name: str, kind: str, when: list[dict[str, Any]], then: dict[str, Any], seconds: float = 0
) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            "delay": {"durationMilliseconds": int(seconds * 1000)},
            "next": then,
        },
    }


def _pod_running(name: str, gpu: str, seconds: float) -> dict[str, Any]:
    when = [
        _ALIVE,
        {"key": ".status.podIP", "operator": "DoesNotExist"},
        {"key": _GPU_LIMIT, "operator": gpu},
    ]
    return _stage(name, "Pod", when, {"statusTemplate": _POD_RUNNING}, seconds)


def _gated(name: str, ready: str) -> dict[str, Any]:
    when = [
        _ALIVE,
        {"key": ".status.podIP", "operator": "Exists"},
        _condition(SERVING_GATE, "In", ready),
        _condition("Ready", "NotIn", ready),
    ]
    template = f'conditions:\n- {{type: Ready, status: "{ready}", lastTransitionTime: {{{{ Now | Quote }}}}}}\n'
    return _stage(name, "Pod", when, {"statusTemplate": template})


def stages() -> str:
    """The Stages as YAML documents."""
    return yaml.safe_dump_all(
        [
            _stage(
                "node-ready",
                "Node",
                [_condition("Ready", "NotIn", "True")],
                {"statusTemplate": _NODE_READY},
            ),
            _pod_running("pod-running", "DoesNotExist", POD_START_SECONDS),
            _pod_running("gpu-pod-running", "Exists", GPU_POD_START_SECONDS),
            _gated("gated-pod-ready", "True"),
            _gated("gated-pod-not-ready", "False"),
            _stage(
                "pod-deleted",
                "Pod",
                [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}],
                {"finalizers": {"empty": True}, "delete": True},
                POD_STOP_SECONDS,
            ),
        ]
    )
