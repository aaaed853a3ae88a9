"""What is lost when a team is offered more than some of it can handle: profile S over many seeds, in virtual time.

**Loss** is messages lost for good, as a share of those offered, per seed: refused until the sender gave up, or admitted
and dead. A message that was refused (NACK), tried again by its throttled sender and admitted is not lost; ``refusals per
offer`` counts such tries. ``strict loss`` counts every message that was refused even once as lost. Means and p95 are over
seeds. Latency counts from when a message came into being until its addressee acknowledged it.

The first contender has everything on; each other one lacks one thing, with the same messages and handling times.
``gate never shut`` never switches, and so shows what switching costs under load. ``lanes of 10,000`` are the
specification's; the profile's are so short that refusing has work to do. With ``pre-validation`` off and on agents warm
up in PREPARE within 50 ms, which one that is stuck cannot; the probe asks them first, and believes an answer for 10 s, or
for 1 s. ``real time`` is one short run on the machine's clock. Work that is open when the offering ends is worked off
before anything is counted.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..telemetry.histogram import Histogram
from ..timeloop import run as run_virtual
from .fates import HANDLED, losses
from .profiles import Profile, from_args, quantile
from .setting import Setting
from .trial import Parts, Tally, Trial

OPTIONS = frozenset({"seed", "seeds", "seconds", "profile", "profile_file", "only"})
SEEDS = 20
ABLATION_SEEDS = 10
REAL_SECONDS = 4.0
OCCUPANCY = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0)
LANE = "drr_wred"
PRE_OFF, PRE_ON = "pre-validation off", "pre-validation on"

Row = dict[str, object]


def run(args: Any = None) -> Iterator[Row]:
    """Rows of bench ``stress``. ``args.seeds`` (20) counts from ``args.seed``; ``args.seconds`` is the time of offering.

    ``args.only`` leaves out all contenders but those it names.
    """
    profile = from_args(args, "S")
    seconds = getattr(args, "seconds", None)
    first, many = int(getattr(args, "seed", None) or 0), getattr(args, "seeds", None)
    whole = Setting(profile, seconds=seconds)
    lanes = Parts.built_in(LANE)
    contenders: list[tuple[str, Setting, Parts]] = [
        ("apex", whole, lanes),
        ("lanes of 10,000", replace(whole, capacity=10_000), lanes),
        ("lane fifo", whole, Parts.built_in("fifo")),
        ("throttle off", replace(whole, throttle=False), lanes),
        ("no reconfiguring", replace(whole, relief=""), lanes),
        ("gate never shut", replace(whole, switching=False), lanes),
        (PRE_OFF, replace(whole, warm=True), lanes),
        (PRE_ON, replace(whole, warm=True, probe=True), lanes),
        (f"{PRE_ON}, cache 1 s", replace(whole, warm=True, probe=True, cache_s=1.0), lanes),
    ]
    only = getattr(args, "only", None)
    for contender, setting, parts in contenders:
        if only is not None and contender not in only:
            continue
        count = int(many or (SEEDS if contender == "apex" else ABLATION_SEEDS))
        tallies = trials(setting, parts, range(first, first + count))
        yield from rows(profile, f"{count} seeds", contender, tallies)
    real = replace(whole, seed=first, seconds=min(seconds or REAL_SECONDS, REAL_SECONDS))
    yield from rows(profile, "real time", "apex", [asyncio.run(Trial(real, lanes).run())])


def trials(setting: Setting, parts: Parts, seeds: Iterable[int]) -> list[Tally]:
    """The same trial under many seeds, each on a shuffling virtual-time loop."""
    return [run_virtual(Trial(replace(setting, seed=n), parts).run(), seed=n, shuffle=True) for n in seeds]


def rows(profile: Profile, case: str, contender: str, tallies: Sequence[Tally]) -> Iterator[Row]:
    """Everything that trials of one setting say."""

    def row(metric: str, value: float, unit: str, **more: object) -> Row:
        form: Row = {"bench": "stress", "case": f"{profile.name}, {case}", "contender": contender, "metric": metric}
        return form | {"value": value, "unit": unit} | more | profile.stamp

    counted = [losses(tally.fates.by_id.values()) for tally in tallies]
    finals = [losses(tally.fates.of("final")) for tally in tallies]
    for metric, seen in (
        ("loss", [loss.share for loss in counted]),
        ("strict loss", [loss.strict for loss in counted]),
        ("refusals per offer", [loss.refusals_per_offer for loss in counted]),
    ):
        yield row(f"{metric}, mean", round(statistics.fmean(seen), 6), "", per_seed=[round(x, 6) for x in seen])
        yield row(f"{metric}, p95", round(quantile(seen, 0.95), 6), "")
    yield row("lost of class final", sum(loss.refused + loss.dead for loss in finals), "messages")
    yield row("offered", sum(loss.offered for loss in counted), "messages")
    yield row("neither handled nor lost", sum(loss.open for loss in counted), "messages")
    rates = [tally.handled_in_time / tally.offered_s for tally in tallies]
    yield row("throughput while offered", round(statistics.fmean(rates), 3), "messages/s")
    for service in profile.classes:
        taken = [
            (fate.ended - fate.born) * 1000
            for tally in tallies
            for fate in tally.fates.of(service)
            if fate.end == HANDLED
        ]
        for metric, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            yield row(f"latency of {service}, {metric}", round(quantile(taken, share), 3), "ms")
    filled = Histogram(OCCUPANCY)
    for tally in tallies:
        for share in tally.occupancy:
            filled.add(share)
    yield row("occupancy of the fullest lane, p95", filled.quantile(0.95), "", histogram=filled.to_json())
    yield row("occupancy of the fullest lane, max", round(filled.largest, 4), "")
    drops: Counter[str] = sum((tally.fates.drops for tally in tallies), Counter())
    for reason, number in sorted(drops.items()):
        yield row(f"drops: {reason}", number, "tries" if reason.startswith("dropped") else "messages")
    yield row("switches committed", sum(tally.committed for tally in tallies), "switches")
    aborts: Counter[str] = sum((tally.aborts for tally in tallies), Counter())
    yield row("switches aborted", sum(aborts.values()), "switches", reasons=dict(aborts))
    deferred: Counter[str] = sum((tally.deferred for tally in tallies), Counter())
    yield row("wishes that had to wait", sum(deferred.values()), "wishes", reasons=dict(deferred))
    rungs: Counter[str] = sum((tally.rungs for tally in tallies), Counter())
    yield row("changes of pressure", sum(rungs.values()), "changes", rungs=dict(rungs))
