"""Says before a run which of its controllers could have learned and have not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..experiment.plan import Plan
    from .context import Context


def say_untrained(context: Context, plan: Plan) -> None:
    """One line on stderr per arm whose controller is untrained, with the command that trains it."""
    from ..experiment.plan import UNTRAINED

    for arm in plan.arms:
        if plan.policies.get(arm.name) == UNTRAINED:
            name, chosen = arm.controller.partition(":")[0], ",".join(arm.topologies)
            which = "" if name == "bandit_v1" else f" --controller {name}"
            context.say(
                f"controller {name} has no trained policy for {chosen}: it is untrained; "
                f"apex train{which} --topology-set {chosen}"
            )
