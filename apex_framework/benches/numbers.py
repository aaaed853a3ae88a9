"""The table of promises: what, the specification's figure, ours, and how the rows of a bench are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

Row = Mapping[str, object]


class Found:
    """Rows of the bench that a promise looks at."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    def value(self, metric: str, *, case: str = "", contender: str = "apex") -> float:
        """The value of the one row with this metric and contender whose case has this in it. Raises LookupError."""
        hits = [row for row in self._rows if self._fits(row, metric, case, contender)]
        if len(hits) != 1:
            raise LookupError(f"{len(hits)} rows {case!r} {contender!r} {metric!r}")
        return float(str(hits[0]["value"]))

    def values(self, metric: str, *, case: str = "", contender: str = "apex") -> dict[str, float]:
        """Case -> value of all such rows. Raises LookupError when there is none."""
        hits = {
            str(row["case"]): float(str(row["value"])) for row in self._rows if self._fits(row, metric, case, contender)
        }
        if not hits:
            raise LookupError(f"no row {case!r} {contender!r} {metric!r}")
        return hits

    def sum(self, *metrics: str, case: str = "") -> float:
        """The sum of the rows with these metrics. Raises LookupError when one is missing."""
        return sum(sum(self.values(metric, case=case).values()) for metric in metrics)

    def planted(self) -> dict[str, str]:
        """Planted bug -> the guarantee by which it was caught. Raises LookupError when none was planted."""
        hits = {str(row["case"]): str(row["metric"]) for row in self._rows if str(row["case"]).startswith("planted: ")}
        if not hits:
            raise LookupError("no bug was planted")
        return hits

    @staticmethod
    def _fits(row: Row, metric: str, case: str, contender: str) -> bool:
        return row["metric"] == metric and row["contender"] == contender and case in str(row["case"])


@dataclass(frozen=True, slots=True)
class Answer:
    """What was measured, in words and as one figure, and whether it is as good as promised."""

    measured: str
    met: bool
    value: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise; ``judge`` reads the rows of its ``bench``. Raises LookupError when they do not say it."""

    what: str
    specification: str
    ours: str
    bench: str
    judge: Callable[[Found], Answer]
    extra: str = ""
    """What has to be installed for it."""


def _epoch(found: Found) -> Answer:
    ns = found.value("time", case="check in send")
    return Answer(f"{ns:.0f} ns", ns < 60, ns, "ns")


def _switch_on_disk(found: Found) -> Answer:
    disk = "journal on disk"
    p95, p99 = found.value("total p95", contender=disk), found.value("total p99", contender=disk)
    limit = found.value(f"total p95, {disk}", contender="limit")
    syncs = found.value("syncs per switch", contender=disk)
    measured = (
        f"p95 {p95:.1f} ms, p99 {p99:.1f} ms; 3 ms + 2 x fsync p95 is {limit:.1f} ms; {syncs:.2f} fsyncs a switch"
    )
    return Answer(measured, p95 <= limit and p95 < 100 and p99 < 150 and syncs <= 2, p95, "ms")


def _switch_in_memory(found: Found) -> Answer:
    p95 = found.value("total p95", contender="journal in memory")
    return Answer(f"p95 {p95:.2f} ms", p95 < 1, p95, "ms")


def _memory(found: Found) -> Answer:
    switches = ("flat to star", "flat to chain")
    peak = max(found.value("added at the peak", contender=name) for name in switches)
    copied = sum(found.value("copied of 50,000 waiting payloads", contender=name) for name in switches)
    return Answer(f"{peak:.1f} MB at the peak, {copied:.0f} payloads copied", peak < 10 and copied == 0, peak, "MB")


ON = "small, everything on"


def _router_queue(found: Found) -> Answer:
    ratio = found.value("ratio to asyncio.Queue", case=ON)
    rate = found.value("throughput", case=ON)
    return Answer(f"{ratio:.2f} x ({rate:,.0f} messages/s); aimed at: 0.5 x", ratio >= 0.25, ratio, "x")


def _router_autogen(found: Found) -> Answer:
    ratio = found.value("ratio to autogen-core", case=ON)
    return Answer(f"{ratio:.1f} x", ratio >= 20, ratio, "x")


def _router_memory(found: Found) -> Answer:
    ((case, growth),) = found.values("growth of the peak after that", case="memory, ").items()
    measured = f"{growth:.1f} MB more in the second half ({case.removeprefix('memory, ')}; -n 10000000 for all of them)"
    return Answer(measured, growth <= 5, growth, "MB")


def _router_teams(found: Found) -> Answer:
    ratio = found.value("ratio to 3 agents", case="100 agents")
    return Answer(f"{ratio:.2f} x the cost at 3", ratio <= 1.25, ratio, "x")


def _loss(found: Found) -> Answer:
    mean, p95 = found.value("loss, mean", case="seeds"), found.value("loss, p95", case="seeds")
    finals = found.value("lost of class final", case="seeds")
    measured = f"mean {mean:.3%}, p95 {p95:.3%}, {finals:.0f} of class final"
    return Answer(measured, mean <= 0.005 and p95 <= 0.01 and finals == 0, mean)


def _strict_loss(found: Found) -> Answer:
    lanes = "lanes of 10,000"
    mean, p95 = found.value("strict loss, mean", contender=lanes), found.value("strict loss, p95", contender=lanes)
    return Answer(f"mean {mean:.3%}, p95 {p95:.3%}", mean <= 0.005 and p95 <= 0.01, mean)


def _strict_loss_of_tight_lanes(found: Found) -> Answer:
    mean, p95 = found.value("strict loss, mean", case="seeds"), found.value("strict loss, p95", case="seeds")
    return Answer(f"mean {mean:.3%}, p95 {p95:.3%}", mean <= 0.005 and p95 <= 0.01, mean)


def _drr(found: Found) -> Answer:
    services, lane = ("final", "draft", "critic"), "drr_wred"
    worst = max(abs(found.value(f"{service} off its weight", contender=lane)) for service in services)
    shares = [found.value(f"{service} of 12", contender=lane) for service in services]
    measured = f"{shares[0]:.2f} : {shares[1]:.2f} : {shares[2]:.2f} of 12, at most {worst:.2f} % off"
    return Answer(measured, worst <= 1 and min(shares) > 0, worst, "%")


def _stuck(found: Found) -> Answer:
    ratio = found.value("least ratio of the other six")
    return Answer(f"the other six handle {ratio:.2f} x what they do with nobody stuck", ratio >= 0.99, ratio, "x")


def _probe(found: Found) -> Answer:
    p95 = found.value("p95", case="7 agents, 1 ms each")
    stuck = found.value("p95", case="one stuck")
    return Answer(f"{p95:.1f} ms (agents that take 1 ms); {stuck:.1f} ms where one is stuck", p95 < 5, p95, "ms")


def _pre_validation(found: Found) -> Answer:
    change = found.value("change of aborts", case="migrate", contender="probe on")
    more = found.value("commits more", case="migrate", contender="probe on")
    return Answer(f"{change:+.0%} aborts, {more:+.0f} commits", change <= -0.5 and more >= 0, change)


def _pin(found: Found) -> Answer:
    healed = found.value("seeds that pinned and healed")
    slowest, window = (
        found.value("decisions to the pin, max"),
        found.value("decisions to the pin, max", contender="limit"),
    )
    same = found.value("seeds that ran the same twice")
    measured = f"pinned after at most {slowest:.0f} of {window:.0f} decisions, {healed:.0f} seeds healed, {same:.0%} the same twice"
    return Answer(measured, slowest <= window and healed > 0 and same == 1, slowest, "decisions")


def _simulation(found: Found) -> Answer:
    from ..testing.invariants import INVARIANTS

    (case, steps), (_, seconds) = *found.values("checked steps").items(), *found.values("time").items()
    violations = sum(found.value(kind, case=case) for kind in INVARIANTS)
    seeds = int(case.split()[0].replace(",", ""))
    whole = seconds * max(2_000_000 / steps, 10_000 / seeds)
    measured = f"{steps:,.0f} steps over {seeds:,} seeds, {violations:.0f} violations; 2,000,000 over 10,000 take {whole:.0f} s"
    return Answer(measured, violations == 0 and whole <= 300, violations, "violations")


def _planted(found: Found) -> Answer:
    planted = found.planted()
    caught = sum(by != "not caught" for by in planted.values())
    return Answer(f"{caught} of {len(planted)}", caught == len(planted) >= 30, caught, "bugs")


def _telemetry(found: Found) -> Answer:
    percent, nothing = (found.value("overhead", contender=name) for name in ("polled", "off again"))
    return Answer(f"{percent:.1f} % (the measurement itself: {nothing:+.1f} %)", percent <= 5, percent, "%")


def _kills(found: Found) -> Answer:
    cycles, lost, phantom = (found.value(metric, case="kill -9") for metric in ("cycles", "lost", "phantom"))
    measured = f"{cycles:.0f} kills: {lost:.0f} lost, {phantom:.0f} phantom"
    return Answer(measured, cycles >= 500 and lost == phantom == 0, lost + phantom, "records")


def _crashes(found: Found) -> Answer:
    calls = found.value("calls to the disk at which it stopped")
    models = ("killed", "lost", "prefix", "zeroed", "reordered", "torn")
    disks = found.sum(*(f"stopped and read again, {model}" for model in models))
    lost, phantom, unlike = (found.value(metric) for metric in ("lost", "phantom", "unlike"))
    measured = (
        f"{calls:.0f} calls, {disks:.0f} disks: {lost:.0f} lost, {phantom:.0f} phantom, {unlike:.0f} unlike twice"
    )
    return Answer(measured, lost == phantom == unlike == 0 and disks > 0, lost + phantom + unlike, "violations")


def _emulator(found: Found) -> Answer:
    errors = [
        abs(value)
        for contender in ("drawn", "slept in virtual time", "slept for real")
        for metric in ("p50 error", "p95 error")
        for value in found.values(metric, contender=contender).values()
    ]
    return Answer(f"at most {max(errors):.2%} off", max(errors) <= 0.03, max(errors))


def _cliffs(found: Found) -> Answer:
    worst = found.values("worst share of the limit")
    case = min(worst, key=lambda name: worst[name])
    return Answer(f"worst point {worst[case]:.2f} of an ideal bus ({case})", worst[case] >= 0.8, worst[case])


PROMISES: Sequence[Promise] = (
    Promise("epoch check", "< 300 ns", "< 60 ns over the bare path", "epoch", _epoch),
    Promise(
        "switch, probe and journal fsync included (profile N)",
        "p95 < 100 ms, p99 < 150 ms",
        "at most 2 fsyncs a switch; p95 <= 3 ms + 2 x the fsync p95 of the same run",
        "switch",
        _switch_on_disk,
    ),
    Promise("switch, journal in memory (profile N)", "-", "p95 < 1 ms", "switch", _switch_in_memory),
    Promise(
        "memory added by a switch (5 x 10,000 of 1 KB waiting, 5 x 1,000 arriving)",
        "< 40 MB",
        "< 10 MB, waiting messages not copied",
        "switch",
        _memory,
    ),
    Promise(
        "router with everything on, against asyncio.Queue", "-", ">= 0.25 x, aiming at 0.5 x", "router", _router_queue
    ),
    Promise("router with everything on, against autogen-core", "-", ">= 20 x", "router", _router_autogen),
    Promise(
        "router with everything on, memory", "-", "10 M messages: flat (at most 5 MB more)", "router", _router_memory
    ),
    Promise("router, cost per message in a team of 100", "-", "flat (<= 1.25 x)", "router", _router_teams),
    Promise(
        "loss under profile S: lost for good (lanes of 256)",
        "mean <= 0.5 %, p95 <= 1 %",
        "the same, and zero of class final",
        "stress",
        _loss,
    ),
    Promise(
        "loss under profile S: every NACK counted (lanes of 10,000)",
        "mean <= 0.5 %, p95 <= 1 %",
        "the same",
        "stress",
        _strict_loss,
    ),
    Promise(
        "loss under profile S: every NACK counted (lanes of 256)",
        "mean <= 0.5 %, p95 <= 1 %",
        "the same",
        "stress",
        _strict_loss_of_tight_lanes,
    ),
    Promise("DRR 8:3:1 when backlogged", "+- 10 %", "+- 1 %, no class starved", "fairness", _drr),
    Promise("one agent of seven stuck", "-", "costs the others nothing (>= 0.99 x)", "fairness", _stuck),
    Promise("probe p95", "< 20 ms", "< 5 ms", "health", _probe),
    Promise(
        "pre-validation under profile S", "aborts -30 %", "aborts -50 %, no fewer commits", "health", _pre_validation
    ),
    Promise(
        "controller p95 > 10 ms injected", "pins", "pins within one window, heals, 100 % deterministic", "health", _pin
    ),
    Promise(
        "simulation: checked steps",
        "1,000 trials",
        "2,000,000 over 10,000 seeds in 5 min, zero violations",
        "simulate",
        _simulation,
    ),
    Promise("simulation: planted bugs caught", "-", "at least 30, all of them", "simulate", _planted),
    Promise(
        "journal under kill -9", "consistent recovery", "500 kills: nothing lost, nothing phantom", "journal", _kills
    ),
    Promise(
        "journal, stopped at every call to the disk",
        "consistent recovery",
        "nothing lost, nothing phantom, the same twice",
        "crashes",
        _crashes,
    ),
    Promise("cost of telemetry on the router", "-", "<= 5 %", "telemetry", _telemetry),
    Promise("latency emulator", "p50, p95 within 3 %", "the same, exact in virtual time", "profiles", _emulator),
    Promise("graceful degradation", "no cliffs", ">= 0.8 of an ideal bus at every point", "degradation", _cliffs),
)
