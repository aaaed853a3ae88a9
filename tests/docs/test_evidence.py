"""Numbers of the experiments' pages are made again from the episodes that are kept beside them."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from evidence_numbers import DATA, EVIDENCE, NUMBER, WORDS, Kept, kept_lines, one_line, printed, upper_bound, wrong

ROOT = Path(__file__).parents[2]
STATICS = ("static_star", "static_chain", "static_flat")
NOT_KEPT = ("first-experiment", "gate", "ladder", "replay", "denials")


def headline(kept: Kept) -> Iterator[str]:
    bandit, single = kept.arm("bandit_v1")[0], kept.arm("single")[0]
    shares = sorted(kept.arm(name)[0] for name in STATICS)
    tasks = len({row.task for row in kept.rows})
    yield (
        f"The trained bandit solves {bandit} % of {tasks} held-out tasks, the static topologies {shares[0]} to {shares[-1]} %,"
        f" the single agent {single} %."
    )
    star, chain, flat, alone = (kept.lift("bandit_v1", arm) for arm in (*STATICS, "single"))
    lift, low, high = (star[key].lstrip("+") for key in ("lift", "low", "high"))
    yield f"over the static star is excluded: + {lift} points, 95 % interval {low} to + {high}."
    assert star["wins"] == chain["wins"]
    yield f"It wins {WORDS[star['wins']]} task against star and chain, {WORDS[flat['wins']]} against flat, and"
    yield f"and {alone['wins']} to {alone['losses']} against the single agent."
    yield (
        f"By task the bandit wins {star['wins']} against star and chain, {WORDS[flat['wins']]} against flat,"
        f" {alone['wins']} against the single agent, and loses {alone['losses']} to that and none to the others."
    )
    assert {lift["losses"] for lift in (star, chain, flat)} == {0}
    again = kept_lines("again/headline-bandit.jsonl.gz")
    yield f"For that it switches {sum(row['switches'] for row in again) / len(again):.1f} times an episode and"
    for told, other in ((star, "star"), (alone, "single agent")):
        shift = told["shift"]
        more = " a task more than the" if other == "star" else " more than the"
        unit = " tokens" if other == "star" else ""
        yield f"{shift['tokens']}{unit}{more} {other} ({shift['fewest']} to {shift['most']})"
    ended = Counter(row["reason"] for row in again if not row["success"])
    unsolved = sum(not success for success in kept.solved("bandit_v1").values())
    yield (
        f"Of the bandit's {unsolved} unsolved episodes {ended['no budget for another repair']} ended for want of budget and"
        f" {ended['change accepted']} with a change"
    )
    yield f"Holm p: of sign flips of {star['clusters']} clusters, two-sided, {len(kept.holm)} at once"
    yield from kept.family_rows(
        "bandit_v1 static_flat thompson phase_heuristic schedule:flat,flat,chain",
        "static_star static_chain linucb per_episode random_switch:0.22",
        "manager",
        "single",
    )
    yield f"oracle static (hindsight) {kept.oracle(*STATICS)} %;"
    yield f"in hindsight has {kept.oracle(*STATICS)} %: no controller"
    pairs = len(kept.solved("bandit_v1"))
    apart = sorted(kept.apart("manager", arm) for arm in ("bandit_v1", "static_star"))
    yield f"Five of them have the same outcome in all {pairs} episodes; five others are equal, too, and differ"
    yield f"differ from the first five in {kept.apart('bandit_v1', 'static_star')} (one task at both seeds); the manager"
    yield f"the manager differs from either in {apart[0]} to {apart[1]}."
    assert max(row.tokens or 0 for row in kept.rows) <= 10_000
    episodes = len(kept.rows)
    yield f"{episodes:,} episodes from an installed wheel"
    yield f"(0 of {pairs} per arm: at most {upper_bound(pairs)} %; 0 of {episodes:,}: at most {upper_bound(episodes)} %)"
    yield f"no deviation from the plan, {sum(row.tokens or 0 for row in kept.rows):,} tokens."
    (power,) = re.findall(r"show a lift of \+([\d.]+) pp", printed("power", "--n", str(tasks), "--discordance", "0.07"))
    yield f"{power} points with 80 % power at 7 % discordant tasks (`apex power --n {tasks} --discordance 0.07`)"
    yield f"At 7 % discordance {power} points would have been found with 80 % power"
    yield f"what was met against topologies ({star['wins']} task of {tasks})"


def humaneval(kept: Kept) -> Iterator[str]:
    solved = kept.solved("bandit_v1")
    tasks = len({row.task for row in kept.rows})
    bandit, single = kept.arm("bandit_v1")[0], kept.arm("single")[0]
    yield f"The trained bandit solves {bandit} % of {tasks} tasks ({sum(solved.values())} of {len(solved)} episodes), and"
    others = (*STATICS, "phase_heuristic")
    assert not any(kept.apart("bandit_v1", arm) for arm in others)
    yield f"the very same {len(solved)} episodes have the same outcome in all five."
    star, alone = kept.lift("bandit_v1", "static_star"), kept.lift("bandit_v1", "single", "--margin", "5")
    yield (
        f"over the best static topology is {star['lift']} points, 95 % interval {signed(star['low'])} to {star['high']}, so"
    )
    yield (
        f"over the single agent ({single} %) it is {alone['lift']}, {signed(alone['low'])} to {alone['high']}. The bandit switches"
    )
    yield f"by task: {alone['wins']} won (HumanEval-10, HumanEval-36), {alone['losses']} lost (HumanEval-98);"
    yield f"(`--margin 5`: lower bound {signed(format(100 * alone['non_inferiority']['bound'], '+.1f'))})."
    yield f"Holm p: of exact McNemar, two-sided, {len(kept.holm)} at once"
    shift = star["shift"]
    yield f"about {shift['tokens']} tokens a task more than the star (95 % interval +{shift['fewest']} to +{shift['most']};"
    known, unknown = kept.family_rows(" ".join(("bandit_v1", *others)), "single")
    yield known.replace("| known |", "known: the solver has the edit that undoes the fault |")
    yield unknown.replace("| unknown |", "unknown: it has not |")
    yield f"solved | {sum(solved.values())} | {sum(kept.solved('single').values())} |"
    yield f"oracle static (hindsight) {kept.oracle(*STATICS)} %;"
    yield f"in hindsight has {kept.oracle(*STATICS)} %, too:"
    assert kept.tokens("static_star") == kept.tokens("static_flat")
    yield f"Star and flat use the same tokens in all {len(solved)} episodes"
    per_task = Counter(task for (task, _), success in solved.items() if success)
    both = sum(n == 2 for n in per_task.values())
    yield f"or at neither ({both} and {tasks - len(per_task)} of {tasks} for the bandit)."
    episodes = len(kept.rows)
    assert max(row.tokens or 0 for row in kept.rows) <= 10_000
    yield (
        f"(0 of {len(solved)} per arm: at most {upper_bound(len(solved))} %; 0 of {episodes:,}: at most {upper_bound(episodes)} %,"
    )


def ablations(kept: Kept) -> Iterator[str]:
    solved = {arm: sum(kept.solved(arm).values()) for arm in ("ten", "ten_star", "ten_chain", "ten_flat")}
    ten = kept.lift("ten", "ten_star")
    low, high = ten["low"].lstrip("+"), ten["high"].lstrip("+")
    yield (
        f"In a team of ten the bandit solves {solved['ten']} tasks and the static star {WORDS[solved['ten_star']]}"
        f" (95 % interval + {low} to + {high}; sign flips of modules p {ten['p_cluster']:.3f}, exact McNemar p {ten['p_exact']:.3f},"
    )
    assert not kept.apart("ten", "ten_flat")
    yield f"it solves the very {solved['ten']} tasks that the static flat solves"
    yield (
        f"In a team of ten flat solves {solved['ten_flat']} tasks, chain {solved['ten_chain']}, star {solved['ten_star']}; the"
    )
    free, paid = (
        [sum(kept.solved(arm).values()) for arm in arms]
        for arms in (("free", "free_star"), ("bandit_v1", "static_star"))
    )
    assert free[0] == free[1]
    yield f"with free ones both arms solve {free[0]}, at {paid[0]} and {paid[1]} with paid ones."
    tasks = len(kept.solved("ten"))
    assert max(row.tokens or 0 for row in kept.rows) <= 10_000
    yield f"(per arm 0 of {tasks}: at most {upper_bound(tasks)} %)"
    yield from shifted(kept.home)


def shifted(home: Path) -> Iterator[str]:
    kept = Kept("again/ablations-shifted", home)
    assert not kept.apart("bandit_v1", "static_star")
    lift = kept.lift("bandit_v1", "static_star")
    solved, tasks = sum(kept.solved("static_star").values()), len(kept.solved("static_star"))
    points, low, high = spaced(lift["lift"]), signed(lift["low"]), spaced(lift["high"])
    yield f"{tasks} of them): bandit and star solve the same {WORDS[solved]}, {points} points ({low} to {high})."


def native(kept: Kept) -> Iterator[str]:
    tasks = len(kept.solved("single"))
    (high,) = {kept.arm(arm)[2] for arm in ("bandit_v1", "static_star", "phase_heuristic", "single")}
    (solved,) = {sum(kept.solved(row.arm).values()) for row in kept.rows}
    yield f"Four arms on {tasks} of the tasks ({len(kept.rows)} episodes, exploratory): **{solved} of {tasks} solved by each**,"
    yield f"says that none solves more than {high} % (95 %)."
    clusters = len({row.cluster for row in kept.rows})
    yield f"Holm p: of sign flips of {clusters} clusters, two-sided, {len(kept.holm)} at once"
    yield f"All {len(kept.rows)} episodes end with work"


CLAIMS: dict[str, Callable[[Kept], Iterator[str]]] = {
    "headline": headline,
    "humaneval": humaneval,
    "ablations": ablations,
    "native": native,
}
PLANTED = {
    "headline": (
        ("| 90 | 52.2 % |", "| 90 | 99.9 % |"),
        ("156 tokens", "9 tokens"),
        ("2.8 times", "0.1 times"),
        ("10 to 10", "30 to 1"),
        ("none against flat, 10", "one against flat, 10"),
        ("391 ended", "301 ended"),
    ),
    "humaneval": (("63.3 % | 63.3 %", "63.3 % | 93.3 %"), ("2 won", "9 won"), ("+62 to +104", "+62 to +114")),
    "ablations": (
        ("p 0.031", "p 0.001"),
        ("chain 1, star 0", "chain 7, star 0"),
        ("both arms solve 32", "both arms solve 42"),
    ),
    "native": (("0 of 25 solved", "9 of 25 solved"), ("more than 13.3 %", "more than 3.3 %")),
}


def signed(number: str) -> str:
    """With the minus of a printed page."""
    return number.replace("-", "−")


def spaced(number: str) -> str:
    return number.replace("+", "+ ")


def page_of(name: str) -> str:
    return (EVIDENCE / f"{name}.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=CLAIMS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A page, and what it has to say."""
    name = str(request.param)
    kept = Kept(name, tmp_path_factory.mktemp(name))
    return name, [*kept.lines(page_of(name)), *CLAIMS[name](kept)]


def test_a_page_says_what_its_episodes_say(made: tuple[str, list[str]]) -> None:
    name, claims = made
    assert f"data/{name}.jsonl.gz" in page_of(name)
    assert wrong(page_of(name), claims) == []


def test_a_changed_number_is_found(made: tuple[str, list[str]]) -> None:
    name, claims = made
    page = one_line(page_of(name))
    for before, after in PLANTED[name]:
        assert before in page
        assert wrong(page.replace(before, after), claims), f"{before} was changed, and nobody saw it"
    for claim in map(one_line, claims):
        for number in re.finditer(NUMBER, claim):
            digit = str((int(number.group()[-1]) + 1) % 10)
            edited = claim[: number.end() - 1] + digit + claim[number.end() :]
            assert wrong(page.replace(claim, edited), [claim]), (
                f"{claim}: {number.group()} was changed, and nobody saw it"
            )


def test_the_episodes_that_were_run_again_are_those_that_are_kept() -> None:
    """Tokens of three differ by up to 13; the page says so."""
    first = {(row["task"], row["seed"]): row for row in kept_lines("headline.jsonl.gz") if row["arm"] == "bandit_v1"}
    again = kept_lines("again/headline-bandit.jsonl.gz")
    assert len(again) == len(first) == 600
    off = []
    for row in again:
        known = first[row["task"], row["seed"]]
        assert {key: row[key] for key in known if key != "tokens"} == {k: v for k, v in known.items() if k != "tokens"}
        off += [abs(row["tokens"] - known["tokens"])] if row["tokens"] != known["tokens"] else []
    assert f"tokens in all but {len(off)}, which differ by up to {max(off)}" in one_line(page_of("headline"))


@pytest.mark.parametrize("name", [*CLAIMS, *NOT_KEPT])
def test_a_page_says_which_of_its_numbers_nobody_makes_again(name: str) -> None:
    assert "Not made again by CI: " in page_of(name)


def test_experiments_are_kept() -> None:
    assert {path.name for path in DATA.glob("*.jsonl.gz")} == {f"{name}.jsonl.gz" for name in CLAIMS}


def test_the_plan_that_comes_along_has_the_matched_rate_of_the_registered_one() -> None:
    matched = next(arm for arm in arms_of(EVIDENCE / "plans" / "headline.toml") if arm.startswith("random_switch:"))
    assert f"`{matched}`" in page_of("headline")
    assert arms_of(ROOT / "examples" / "experiments" / "headline.toml") == arms_of(EVIDENCE / "plans" / "headline.toml")
    shown = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert ", ".join(arms_of(ROOT / "examples" / "experiments" / "headline.toml")) in shown


def arms_of(plan: Path) -> list[str]:
    (part,) = tomllib.loads(plan.read_text(encoding="utf-8"))["part"]
    return list(part["arms"])
