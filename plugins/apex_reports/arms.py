"""Tables of what every arm did: solved, cost, families, conduct."""

from __future__ import annotations

from apex_framework.analysis import Answer, ArmSummary

from .cells import UNTOLD, Table, number, percent, recorded, told

UNTIMED = (
    "Switches are not timed: an episode's clock is virtual and goes on for model calls and waits alone, so what a switch "
    "computes takes none of its time."
)
"""Said where switches took no episode time: zeros would look like a measurement."""


def arms(answer: Answer) -> Table:
    """What every arm solved and what it cost."""
    ours = not recorded(answer)
    table = Table(
        "Arms",
        ("arm", "tasks", "solved", "95 % interval", "tokens", "steps", "switches", "aborted", "overfit"),
        tuple(
            (
                arm.arm,
                str(arm.tasks),
                percent(arm.success),
                f"{percent(arm.interval.low)} to {percent(arm.interval.high)}",
                number(arm.tokens, "{:,.0f}"),
                number(arm.steps, "{:.1f}"),
                f"{arm.switches:.2f}" if ours else UNTOLD,
                f"{arm.aborted:.2f}" if ours else UNTOLD,
                percent(arm.overfit) if ours else UNTOLD,
            )
            for arm in answer.arms
        ),
        (
            "solved: share of judged tasks within the token budget. tokens, steps, switches, aborted: means per episode.",
            "overfit: share of episodes that pass the visible tests and fail the hidden ones.",
        )
        if ours
        else (
            "solved: share of judged tasks.",
            *(f"{name}: means per episode, {UNTOLD} where some do not tell." for name in _told_of(answer)),
        ),
    )
    return told(table)


def _told_of(answer: Answer) -> list[str]:
    means = {"tokens": [arm.tokens for arm in answer.arms], "steps": [arm.steps for arm in answer.arms]}
    return [name for name, values in means.items() if any(value is not None for value in values)]


def conduct(answer: Answer) -> Table:
    """How arms behaved: both denominators, denials, budgets, latencies; no rows for what ran elsewhere."""
    head = ("arm", "infra", "solved of all", "denied", "over budget", "messages", "decision p95", "switch p95")
    timed = any(latency.get("switch_ms", 0.0) > 0.0 for latency in answer.latencies.values())
    table = Table(
        "Conduct",
        head,
        () if recorded(answer) else tuple(_conduct_of(arm, answer, timed) for arm in answer.arms),
        (
            "infra: episodes that could not be run; solved of all: counts them as failures. denied: calls per episode.",
            "over budget: episodes that spent more than their budget, the one-sided 95 % bound on that rate, and their "
            "mean excess. messages: share of tokens that came from other agents.",
            "decision p95: wall time." + (" switch p95: episode time." if timed else ""),
            *((UNTIMED,) if not timed and any("switch_ms" in found for found in answer.latencies.values()) else ()),
        ),
    )
    return told(table)


def _conduct_of(arm: ArmSummary, answer: Answer, timed: bool) -> tuple[str, ...]:
    latency = answer.latencies.get(arm.arm, {})
    return (
        arm.arm,
        f"{arm.infrastructure} of {arm.episodes}",
        percent(arm.success_of_all),
        f"{arm.denied:.2f}",
        _safety(arm),
        percent(arm.message_share),
        f"{latency['decision_ms']:.3f} ms" if "decision_ms" in latency else "-",
        UNTOLD if not timed else f"{latency['switch_ms']:.1f} ms" if "switch_ms" in latency else "-",
    )


def _safety(arm: ArmSummary) -> str:
    if arm.safety is None:
        return "-"
    excess = f", by {arm.safety.mean_overspend:,.0f} tokens" if arm.safety.violations else ""
    return f"{arm.safety.violations} (≤ {100 * arm.safety.upper:.2f} %{excess})"


def families(answer: Answer) -> Table:
    """Solved per family of tasks; no rows where the suite has none."""
    names = [arm.arm for arm in answer.arms]
    return Table(
        "Solved per family",
        ("family", "tasks", *names),
        tuple(
            (family, str(max(s.tasks for s in by_arm.values())), *(percent(by_arm[n].success) for n in names))
            for family, by_arm in answer.families.items()
        ),
    )
