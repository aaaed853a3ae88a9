"""What an arm is for in a comparison, read from its setting in run.json or, failing that, from its name."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class ArmRole(StrEnum):
    """Its part in the question."""

    SINGLE = "single agent"
    MANAGER = "manager"
    STATIC = "static topology"
    SCHEDULE = "fixed schedule"
    CONTROL = "control"
    """random_switch and per_episode: switching without sense, sense without switching."""
    RECORDED = "recorded system"
    """It ran elsewhere; its verdicts were imported."""
    SUBJECT = "controller"


def arm_role(name: str, setting: Mapping[str, Any] | None = None) -> ArmRole:
    """The role of an arm."""
    team = str((setting or {}).get("team", ""))
    controller = str((setting or {}).get("controller", "")) or name
    base = controller.split(":")[0].split("_")[0] if controller.startswith("static") else controller.split(":")[0]
    if team == "single" or (not setting and name.startswith("single")):
        return ArmRole.SINGLE
    if team == "manager" or (not setting and name.startswith("manager")):
        return ArmRole.MANAGER
    if base.startswith("static"):
        return ArmRole.STATIC
    if base == "schedule":
        return ArmRole.SCHEDULE
    if base in ("random_switch", "per_episode"):
        return ArmRole.CONTROL
    if team == base == "imported":
        return ArmRole.RECORDED
    return ArmRole.SUBJECT
