"""The timeline of an episode: who had which message when, under which topology, and what was decided and switched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import svg
from .figure import Figure
from .lines import Key
from .observed import STAY, DecisionRow, SwitchRow
from .panels import Scale, features_panel, scores_panel
from .trace import MOST, Hop, Trace

LANE = 34
HEAD = 34
"""Pixels above the lanes: two rows of names of epochs."""
LETTER = 7.0
"""Pixels of a bold letter, about."""
PHASES = {"probe": "probe", "prepare": "PREPARE", "quiesce": "QUIESCE", "commit": "COMMIT", "abort": "ABORT"}


@dataclass(frozen=True, slots=True)
class Shown:
    """An episode that is drawn."""

    key: Key
    trace: Trace
    decisions: Sequence[DecisionRow]
    switches: Sequence[SwitchRow]
    topologies: tuple[str, ...]
    features: tuple[str, ...]
    counted: int = 0
    """Switches and aborts that the episode's own line counts."""


def timeline(name: str, shown: Shown) -> Figure:
    """Columns are equally wide: they follow the order of events, and episode time is written below."""
    trace = shown.trace
    scale = Scale(min(trace.columns, MOST), _places(shown))
    lanes = _lanes(trace.hops)
    top = HEAD + 22
    bottom = top + len(lanes) * LANE
    parts = _bands(shown, scale, bottom + 6)
    for index, agent in enumerate(lanes):
        y = top + index * LANE + LANE / 2
        parts += [svg.line(scale.left, y, scale.right, y, "lane")]
        parts += [svg.text(scale.left - 8, y + 4, svg.short(agent, 15), "strong", "end")]
        parts += [svg.text(scale.right + 8, y + 4, svg.short(agent, 14), "soft")]
    at = {agent: top + index * LANE + LANE / 2 for index, agent in enumerate(lanes)}
    drawn = [hop for hop in trace.hops if hop.sent < MOST]
    parts += [piece for hop in drawn for piece in _message(hop, scale, at)]
    parts += [piece for hop in drawn for piece in _handling(hop, scale, at)]
    parts += _times(trace, scale, bottom + 20)
    parts += _switches(shown, scale, bottom + 36)
    parts += _decided(shown, scale, bottom + 72)
    scores = scores_panel(shown.decisions, shown.topologies, scale, bottom + 84)
    features = features_panel(shown.decisions, shown.features, scale, scores.bottom)
    parts += [scores.body, features.body]
    arm, task, seed = shown.key
    return Figure(
        name,
        f"Timeline of {task}, seed {seed}, arm {arm}",
        f"{len(lanes)} agents, {len(trace.hops)} hops of messages, {len(trace.handled)} steps, {_in_words(shown)}",
        "".join(parts),
        int(scale.right + 120),
        int(features.bottom + 6),
        ("message", "hop", "from", "to", "for", "relay", "epoch", "bytes", "sent s", "ended s", "end"),
        tuple(
            (
                *(h.msg_id, h.hop, h.holder, h.receiver, h.audience, "yes" if h.relay else "no", h.epoch, h.size),
                *(h.sent_s, h.ended_s if h.end else "", h.end or "open"),
            )
            for h in trace.hops
        ),
        (f"Cut after {MOST} columns; the numbers have the rest.",) if trace.columns > MOST else (),
        (("switches", *switch_sheet(shown)), ("decisions", *decision_sheet(shown))),
    )


def _in_words(shown: Shown) -> str:
    if shown.counted > len(shown.switches) == 0:
        return f"{shown.counted} switches, of which no line is on file"
    committed = sum(s.ok for s in shown.switches)
    each = (f"after step {s.step} {s.origin} to {s.target}{'' if s.ok else ' aborted'}" for s in shown.switches[:10])
    return f"{committed} switches committed, {len(shown.switches) - committed} aborted: {'; '.join(each)}"


def switch_sheet(shown: Shown) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
    """Switches of the episode with their phases in milliseconds of episode time, where any took some."""
    phases = [phase for phase in PHASES if any(phase in s.phases for s in shown.switches)]
    rows = [
        (
            *(s.step, s.origin, s.target, "COMMIT" if s.ok else f"ABORT: {s.reason}", s.epoch),
            *(s.phases.get(phase, 0.0) for phase in phases),
            *(s.whole_ms, s.migrated),
        )
        for s in shown.switches
    ]
    columns = (f"{PHASES[phase]} ms" for phase in phases)
    return _timed(("after step", "from", "to", "end", "epoch", *columns, "whole ms", "migrated"), tuple(rows))


def _timed(
    head: tuple[str, ...], rows: tuple[tuple[object, ...], ...]
) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
    """Without the columns of milliseconds, where no switch took any: zeros would look like a measurement."""
    times = [i for i, name in enumerate(head) if name.endswith(" ms")]
    if any(row[i] for row in rows for i in times):
        return head, rows
    kept = [i for i in range(len(head)) if i not in times]
    return tuple(head[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows)


def decision_sheet(shown: Shown) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
    """Decisions of the episode with scores and features."""
    scored = list(dict.fromkeys(action for d in shown.decisions for action in d.scores))
    width = max((len(d.features) for d in shown.decisions), default=0)
    names = (*shown.features, *(f"feature {i + 1}" for i in range(len(shown.features), width)))
    rows = [
        (
            *(d.step, d.topology or "-", d.action, d.propensity),
            *(d.scores.get(action, "") for action in scored),
            *(d.features[i] if i < len(d.features) else "" for i in range(width)),
        )
        for d in shown.decisions
    ]
    scores = (f"score of {action}" for action in scored)
    return ("step", "in force", "action", "propensity", *scores, *names[:width]), tuple(rows)


def _places(shown: Shown) -> dict[int, float]:
    """Step -> column just after it; decision 0 stands before the first column."""
    return {0: -0.5, **{step: at + 0.5 for step, at in enumerate(shown.trace.handled, 1) if at < MOST}}


def _lanes(hops: Sequence[Hop]) -> list[str]:
    return list(dict.fromkeys(agent for hop in hops for agent in (hop.holder, hop.receiver) if agent))


def _bands(shown: Shown, scale: Scale, bottom: float) -> list[str]:
    start = next((d.action for d in shown.decisions if d.step == 0), "")
    committed = [s for s in shown.switches if s.ok and s.step in scale.places]
    names = [
        start if start not in ("", STAY) else committed[0].origin if committed else "",
        *(s.target for s in committed),
    ]
    edges = [scale.left, *(scale.after(s.step) for s in committed), scale.right]
    epochs = [0, *(s.epoch for s in committed)]
    parts = []
    ends = [scale.left, scale.left]
    for epoch, name, low, high in zip(epochs, names, edges, edges[1:], strict=False):
        colour = scale.colour(name, shown.topologies)
        told = f"epoch {epoch}: {name or 'topology not told'}"
        label = svg.short(f"{epoch} · {name}" if high - low < 110 else f"epoch {epoch} · {name}", 40)
        row = 0 if ends[0] <= low + 2 else min((1, 0), key=lambda i: ends[i])  # a short epoch's name needs room above
        place = max(low + 2, ends[row])
        ends[row] = place + LETTER * len(label)
        parts.append(svg.rect(low, HEAD, high - low, bottom - HEAD, f"b{colour}", told))
        parts.append(svg.rect(low, HEAD, high - low, 4, f"f{colour}"))
        parts.append(svg.text(place, HEAD - 6 - 12 * row, label, f"f{colour} strong"))
    return parts


def _message(hop: Hop, scale: Scale, at: dict[str, float]) -> list[str]:
    if hop.receiver not in at or hop.holder not in at:
        return []
    x1, y1, y2 = scale.x(hop.sent), at[hop.holder], at[hop.receiver]
    x2 = scale.x(hop.taken if hop.taken >= 0 else hop.ended if hop.ended >= 0 else hop.sent)
    how = f"{hop.holder} to {hop.receiver}" + (f", on the way to {hop.audience}" if hop.relay else "")
    told = (
        f"{hop.msg_id}: {how}; {hop.size:,} bytes, epoch {hop.epoch}, sent at {hop.sent_s:.2f} s; {hop.end or 'open'}"
    )
    down = 1 if y2 > y1 else -1
    tip = y2 - 6 * down
    return [
        svg.line(x1, y1, x2, tip, "relay" if hop.relay else "sent", *svg.told(told)),
        svg.path([(x2 - 3, tip - 5 * down), (x2 + 3, tip - 5 * down), (x2, tip)], "head", closed=True),
    ]


def _handling(hop: Hop, scale: Scale, at: dict[str, float]) -> list[str]:
    if hop.receiver not in at or (hop.taken < 0 and hop.ended < 0):
        return []
    y = at[hop.receiver]
    x1 = scale.x(hop.taken if hop.taken >= 0 else hop.ended)
    x2 = max(x1 + 3, scale.x(hop.ended if hop.ended >= 0 else hop.taken))
    told = f"{hop.receiver} {'passes on' if hop.relay else 'handles'} {hop.msg_id}; {hop.end or 'still open'}"
    parts = []
    if hop.taken >= 0:
        high = 3 if hop.relay else 9
        parts.append(svg.rect(x1 - 2, y - high / 2, x2 - x1 + 2, high, "work", told, rx=2))
    if hop.end.startswith("dead"):
        parts.append(svg.path([(x2 - 4, y - 4), (x2 + 4, y + 4)], "dead", title=told))
        parts.append(svg.path([(x2 - 4, y + 4), (x2 + 4, y - 4)], "dead"))
    return parts


def _times(trace: Trace, scale: Scale, y: float) -> list[str]:
    parts = [svg.text(scale.left - 8, y, "episode time", "soft", "end")]
    last, shown = float("-inf"), None
    for column, ts in enumerate(trace.times[: scale.columns]):
        if ts != shown and scale.x(column) - last >= 46:
            parts.append(svg.text(scale.x(column), y, f"{ts:.1f} s", "soft tiny", "middle"))
            last, shown = scale.x(column), ts
    return parts


def _switches(shown: Shown, scale: Scale, y: float) -> list[str]:
    parts = [svg.text(scale.left - 8, y + 11, "switch", "soft", "end")]
    for switch in shown.switches:
        if switch.step not in scale.places:
            continue
        x = scale.after(switch.step)
        phases = [phase for phase in PHASES if phase in switch.phases and phase not in ("commit", "abort")]
        letters = [*(PHASES[phase][0] for phase in phases), "C" if switch.ok else "A"]
        timed = any(switch.phases.values())  # on a virtual clock all are zero, which is no measurement
        spans = "".join(f"{PHASES[p]} {switch.phases[p]:.2f} ms, " for p in PHASES if p in switch.phases and timed)
        end = "COMMIT" if switch.ok else f"ABORT: {switch.reason}"
        told = f"after step {switch.step}: {switch.origin} to {switch.target}; {spans}{end}, epoch {switch.epoch}"
        parts.append(svg.line(x, HEAD, x, y, "cut"))
        for index, letter in enumerate(letters):
            left = x + (index - len(letters) / 2) * 12
            cls = "stop" if letter == "A" else "chosen" if letter == "C" else "open"
            parts.append(svg.rect(left, y, 11, 14, cls, told, rx=2))
            parts.append(svg.text(left + 5.5, y + 10.5, letter, "tiny" if cls == "open" else "tiny inverse", "middle"))
    return parts


def _decided(shown: Shown, scale: Scale, y: float) -> list[str]:
    parts = [svg.text(scale.left - 8, y + 4, "decision", "soft", "end")]
    for decision in shown.decisions:
        if decision.step not in scale.places:
            continue
        x = scale.after(decision.step)
        move = decision.action not in (STAY, decision.topology)
        size = 5.5 if move else 3.5
        told = f"decision after step {decision.step}: {decision.action}, probability {decision.propensity:g}"
        corners = [(x, y - size), (x + size, y), (x, y + size), (x - size, y)]
        parts.append(svg.path(corners, "chosen" if move else "stay", closed=True, title=told))
    return parts
