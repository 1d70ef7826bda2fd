"""The state of a stack as if the flat program had made it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_OURS = "ackgpu:index:"
_STACK = "pulumi:pulumi:Stack"


def without_components(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """An exported deployment without the program's components; their children become the stack's.

    So both programs are run on the same live objects, and a flat program that differed from ours in one input would
    find something to do.
    """
    # `parentType$type` is how a URN tells a resource's parents.
    flat: dict[str, Any] = json.loads(re.sub(rf"{_OURS}\w+\$", "", json.dumps(deployment)))
    components = {one["urn"] for one in flat["resources"] if one["type"].startswith(_OURS)}
    [stack] = [one["urn"] for one in flat["resources"] if one["type"] == _STACK]
    flat["resources"] = [one for one in flat["resources"] if one["urn"] not in components]
    for resource in flat["resources"]:
        if resource.get("parent") in components:
            resource["parent"] = stack
    return flat
