"""One colour per topology everywhere: an arm that keeps to one has its colour, all others have those that are left."""

from __future__ import annotations

from collections.abc import Mapping

from apex_framework.analysis import Answer, ArmRole

from . import svg


def arm_colours(answer: Answer) -> Mapping[str, int]:
    """Arm -> colour class. Topologies are counted as timelines count them, in the order of the arms' settings."""
    settings = {arm.arm: answer.run.arms.get(arm.arm, {}) for arm in answer.arms}
    topologies = list(dict.fromkeys(str(t) for setting in settings.values() for t in setting.get("topologies") or ()))
    found: dict[str, int] = {}
    free = len(topologies)
    for name, setting in settings.items():
        kept = str(setting.get("controller", "")).partition(":")[2]
        if answer.roles.get(name) is ArmRole.STATIC and kept in topologies:
            found[name] = svg.colour(topologies.index(kept))
        else:
            found[name] = svg.colour(free)
            free += 1
    return found
