"""What a stranger needs: the question, what arms of each kind are, and what the words of the verdict mean."""

from __future__ import annotations

from apex_framework.analysis import Answer, ArmRole
from apex_framework.analysis.verdict import GO_LIFT

from .cells import recorded

ROLES = {
    ArmRole.SUBJECT: "the controller may change the topology (who may speak to whom) while the team works",
    ArmRole.STATIC: "one topology from start to end",
    ArmRole.SINGLE: "one agent alone, with the whole budget",
    ArmRole.MANAGER: "an agent decides who works next",
    ArmRole.SCHEDULE: "topologies change at fixed steps, whatever happens",
    ArmRole.CONTROL: "switches at random, or chooses a topology once per episode",
    ArmRole.RECORDED: "ran elsewhere; its verdicts were imported",
}
"""One note for each kind of arm."""
SHORT = "pp: percentage points. cluster: related tasks. GO: a gain is shown. KILL: it is excluded. EXTEND: neither."
"""What a terminal has room for."""


def question(answer: Answer) -> str:
    """What is asked, in one sentence."""
    if recorded(answer):
        return "The question: which of these systems solves more of the same tasks?"
    return "The question: does changing a team's topology while it works solve more tasks within its token budget?"


def roles_told(answer: Answer) -> tuple[str, ...]:
    """A note for each kind of arm that is there."""
    kinds = dict.fromkeys(answer.roles.values())
    return tuple(f"{kind}: {ROLES[kind]}." for kind in kinds if kind in ROLES)


def words_told(answer: Answer, claim: float = GO_LIFT) -> tuple[str, ...]:
    """Short definitions; none where there is no verdict that uses them."""
    if not answer.verdicts:
        return ()
    wanted = f"{100 * claim:g} points"
    return (
        "pp: percentage points of tasks solved.",
        "cluster: tasks that may succeed or fail together, such as those of one module; intervals take it as a whole.",
        f"GO: above every static topology and the single agent, by {wanted} or more over the best static one. KILL: a gain "
        f"of {wanted} is excluded. EXTEND: neither is shown.",
    )
