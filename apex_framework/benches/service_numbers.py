"""The table of what the model service and the budget promise; the form is that of ``numbers``."""

from __future__ import annotations

from collections.abc import Sequence

from .numbers import Answer, Found, Promise

BY = ("tokenizers", "Python", "repair")
"""Tokenizers that estimates are compared with, where they are there."""


def _service(protocol: str, p95_ms: float) -> Promise:
    def judge(found: Found) -> Answer:
        added = found.value("added, median", case=protocol) / 1000
        low, high = (found.value(f"added, median, {end}", case=protocol) / 1000 for end in ("from", "to"))
        p95 = found.value("added, p95", case=protocol) / 1000
        cpu = found.value("added cpu, median", case=protocol) / 1000
        measured = f"median {added:.2f} ms ({low:.2f} to {high:.2f}; CPU alone {cpu:.2f} ms), p95 {p95:.2f} ms"
        return Answer(measured, added <= 1 and p95 <= p95_ms, added, "ms")

    return Promise(
        f"service, request to first byte, over a bare client ({protocol} protocol, 1 KB prompt)",
        f"{p95_ms:g} ms p95",
        f"median paired difference <= 1 ms, p95 <= {p95_ms:g} ms",
        "first_byte",
        judge,
        "http" if protocol == "vLLM" else "ollama",
    )


def _reserve(found: Found) -> Answer:
    p50, p95 = (found.values(share)["reserve and settle, 4 scopes"] for share in ("p50", "p95"))
    return Answer(f"p50 {p50:.1f} us, p95 {p95:.1f} us", p50 <= 20, p50, "us")


def _calls(found: Found) -> Answer:
    told, ratios = [], []
    for case in ("calls one by one", "calls at a time"):
        middle, low, high = (
            found.value(f"ratio to off{end}", case=case, contender="scopes on") for end in ("", ", from", ", to")
        )
        told.append(f"{case}: {middle:.3f} x ({low:.3f} to {high:.3f})")
        ratios.append(middle)
    return Answer("; ".join(told), min(ratios) >= 0.9, min(ratios), "x")


def _regression(found: Found) -> Answer:
    team, alone = (found.value("regression", case=c, contender="four scopes") for c in ("default team", "alone"))
    low, high = (
        found.value(f"regression, {end}", case="default team", contender="four scopes") for end in ("from", "to")
    )
    measured = f"{team:+.1f} % ({low:+.1f} to {high:+.1f}); without solver and tests {alone:+.1f} %"
    return Answer(measured, team <= 3, team, "%")


def _simulated(found: Found) -> Answer:
    return _overspent(found, "seeds", "; --seeds 1000 for all of them")


def _real(found: Found) -> Answer:
    return _overspent(found, "real calls", "")


def _overspent(found: Found, case: str, remark: str) -> Answer:
    metric, naive = "overspent, sum over scopes", "check then call"
    ((name, ours),) = found.values(metric, case=case).items()
    wrong, theirs = found.value("books wrong", case=case), found.value(metric, case=case, contender=naive)
    steps = found.value("steps judged", case=case)
    worst = found.value("overspent, worst scope", case=case, contender=naive)
    measured = f"{ours:,.0f} tokens in {steps:,.0f} steps ({name}{remark}); naive guard {theirs:,.0f}, worst scope +{worst:.1f} %"
    return Answer(measured, ours == wrong == 0 < theirs, ours, "tokens")


def _pooling(found: Found) -> Answer:
    saved = found.values("saving p50", contender="pool")
    handshake = found.value("acquire p50", case="TLS", contender="no pool") - found.value(
        "acquire p50", case="TLS", contender="pool"
    )
    tls = next(value for case, value in saved.items() if "TLS" in case)
    far = next(value for case, value in saved.items() if "RTT" in case)
    told = ", ".join(f"{case} {value:.2f} ms" for case, value in saved.items())
    return Answer(f"{told}; a TLS handshake is {handshake:.2f} ms", tls >= handshake and far >= 5, far, "ms")


def _warm(found: Found) -> Answer:
    change = found.value("p50, warm against cold")
    return Answer(f"{change:.0f} %", change <= -90, change, "%")


def _estimate(found: Found) -> Answer:
    errors, biases, told = [], [], []
    for name in BY:
        try:
            error, bias = (
                found.value(f"{what}, mean, after the first 10", case="prompts of", contender=name)
                for what in ("error", "bias")
            )
            mixed = found.value("error, mean, after the first 10", case="mixture", contender=name)
        except LookupError:
            continue
        errors.append(error)
        biases.append(bias)
        told.append(f"{name}: error {error:.1f} %, bias {bias:+.1f} % (mixture of texts {mixed:.1f} %)")
    if not errors:
        raise LookupError("no tokenizer to compare with")
    return Answer("; ".join(told), max(errors) <= 10 and min(biases) >= 10, max(errors), "%")


def _plans(found: Found) -> Answer:
    told, kept = [], []
    for case in found.values("hit rate"):
        hits, saved = found.value("hit rate", case=case), found.value("saved on hits", case=case)
        low, high = (found.value(f"success difference on hits, {end}", case=case) for end in ("low", "high"))
        told.append(f"{case}: hits {hits:.0%}, saved {saved:.0%}, success on hits {low:+.2f} to {high:+.2f}")
        kept.append(hits >= 0.2 and saved >= 0.1 and high >= 0)
    return Answer("; ".join(told), all(kept), float(sum(kept)), "cases")


def _misbehaviours(found: Found) -> Answer:
    kinds, calls = (found.value(metric, contender="all") for metric in ("kinds", "calls"))
    sound, late = found.value("kinds as promised"), found.value("latest after its deadline")
    left = found.value("file descriptors and children left")
    measured = f"{sound:.0f} of {kinds:.0f} in {calls:.0f} calls, latest {1000 * late:+.0f} ms, {left:.0f} things left"
    return Answer(measured, sound == kinds >= 25 and late <= 0.25 and left == 0, kinds - sound, "kinds")


def _virtual(found: Found) -> Answer:
    kinds, sound = (
        found.value("kinds", case="misbehaviours", contender="all"),
        found.value("kinds as promised", case="misbehaviours"),
    )
    left = found.value("reservations, tasks, timers and calls left", case="misbehaviours")
    return Answer(
        f"{sound:.0f} of {kinds:.0f}, {left:.0f} things left", sound == kinds >= 25 and left == 0, kinds - sound
    )


def _instances(found: Found) -> Answer:
    ratio, low, high = (
        found.value(f"{which} ratio", contender="5 instances / 1 instance") for which in ("median", "min", "max")
    )
    return Answer(f"{ratio:.2f} x ({low:.2f} to {high:.2f})", ratio >= 1.3, ratio, "x")


SERVICE: Sequence[Promise] = (
    _service("vLLM", 2.0),
    _service("Ollama", 5.0),
    Promise("reserve and settle, four scopes", "-", "<= 20 us p50", "budget", _reserve),
    Promise("calls/s of a null backend, four scopes on against off", "-", ">= 0.9 x (31 pairs)", "llm", _calls),
    Promise("misbehaving backends, in virtual time", "-", "all typed, in time, nothing left", "llm", _virtual),
    Promise("an episode under four scopes, against one", "regression <= 3 %", "the same", "multi_scope", _regression),
    Promise(
        "overspending, simulated callers", "CP <= 1 %", "0, where a naive guard overspends", "overspend", _simulated
    ),
    Promise(
        "overspending, 200 real calls at once", "CP <= 1 %", "0, where a naive guard overspends", "overspend", _real
    ),
    Promise(
        "pool of connections, saving p50",
        ">= 5 ms",
        "in three settings; a handshake where there is one",
        "pooling",
        _pooling,
        "http",
    ),
    Promise("tokenizer, warm against cold, p50", "-50 %", "-90 %", "tokenizer", _warm),
    Promise(
        "estimate without a tokenizer, calibrated", "error <= 10 %, bias >= +10 %", "the same", "tokenizer", _estimate
    ),
    Promise(
        "misbehaving servers, for real",
        "-",
        "all typed within deadline + 250 ms, nothing leaked",
        "misbehaviours",
        _misbehaviours,
        "http",
    ),
    Promise(
        "plan cache", "hits >= 20 %, saves >= 10 % on hits", "the same, success on hits not lower", "plan_cache", _plans
    ),
    Promise(
        "five llama.cpp instances against one, tiny model", "N processes", ">= 1.3 x", "instances", _instances, "metal"
    ),
)
