"""Plan files: what they say, and what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from apex_framework.episode.arm import Arm
from apex_framework.errors import ConfigError
from apex_framework.experiment.planfile import PlanFile, read_plan_file

EXAMPLES = Path(__file__).parents[3] / "examples" / "experiments"

PART = """
[[part]]
name = "main"
suite = "mini/dev"
limit = 40
arms = ["bandit_v1", "static_star", "single"]
"""
CLAIM = """
[prereg]
hypothesis = "it helps"
estimand = "success"
arm = "bandit_v1"
against = ["static_star", "single"]
"""


def plan(tmp_path: Path, text: str) -> PlanFile:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return read_plan_file(path)


def test_a_part_takes_from_the_file_what_it_does_not_say(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        'suite = "mini/test"\nlimit = 7\nbudgets = [500, 900]\n[[part]]\narms = ["single"]\n[[part]]\nlimit = 3\narms = ["single"]\n',
    )
    assert [(p.name, p.suite, p.split, p.limit, p.size) for p in found.parts] == [
        ("part1", "mini", "test", 7, 14),
        ("part2", "mini", "test", 3, 6),
    ]
    assert found.parts[0].folders == {"part1@500": 500, "part1@900": 900}
    assert found.parts[0].token_bound == 7 * 1400


def test_the_layout_of_a_file_does_not_change_its_digest_and_every_word_does(tmp_path: Path) -> None:
    first = plan(tmp_path, PART + CLAIM).digest
    assert plan(tmp_path, f"# a remark\n{CLAIM}\n\n{PART}").digest == first
    for old, new in (("40", "41"), ("it helps", "it hurts"), ('"bandit_v1", "st', '"st'), ("mini/dev", "mini/test")):
        text = (PART + CLAIM).replace(old, new)
        if 'arms = ["static_star"' in text:
            text = (
                text.replace('arm = "bandit_v1"', 'arm = "single"')
                .replace(', "single"]\n[', "]\n[")
                .replace('against = ["static_star", "single"]', 'against = ["static_star"]')
            )
        assert plan(tmp_path, text).digest != first


def test_an_arm_of_the_plan_is_another_one_with_changes(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        '[arm.odd]\nlike = "manager"\nteam_size = 7\noptions = { phase = "exact" }\nbackend = "scripted"\n'
        + PART.replace('"single"', '"odd"'),
    )
    made = found.arms["odd"].arm(Arm("base", dwell=5))
    assert (made.name, made.team, made.team_size, made.dwell) == ("odd", "manager", 7, 5)
    assert (made.controller_options, made.backends) == ({"phase": "exact"}, {"*": "scripted"})


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("limit = 40", "limt = 40", 5, "did you mean 'limit'"),
        ("limit = 40", "limit = 0", 5, "at least 1"),
        ("limit = 40", "limit = true", 5, "at least 1"),
        ("limit = 40", "budgets = 'x'\nlimit = 40", 5, "tokens per episode"),
        ("limit = 40", "budgets = [900, 900]\nlimit = 40", 5, "twice"),
        ("mini/dev", "mini", 4, "SUITE/SPLIT"),
        ('"single"]\n', '"single", "single"]\n', 6, "'single' is there twice"),
        ("limit = 40", 'limit = 40\nbest_static = "static_stra"', 6, "did you mean 'static_star'"),
        ('arm = "bandit_v1"', 'arm = "bandit_v2"', 11, "did you mean 'bandit_v1'"),
        ('against = ["static_star"', 'against = ["static_flat"', 12, "not an arm of part 'main'"),
        ('against = ["static_star"', 'against = ["bandit_v1"', 12, "with itself"),
        ('estimand = "success"', 'estimand = "success"\nalpha = 1.5', 11, "alpha must be between 0 and 0.5"),
        ('estimand = "success"', 'estimand = "success"\nalpha = 0', 11, "alpha must be between"),
        ('estimand = "success"', 'estimand = "success"\nalpha = nan', 11, "alpha must be between"),
        ('estimand = "success"', 'estimand = "success"\nstop = "when it looks good"', 11, "unknown stop rule"),
        (
            'estimand = "success"',
            'estimand = "success"\nexclusions = ["infrastructure", "bad ones"]',
            11,
            "nothing can be excluded",
        ),
        ('estimand = "success"', 'estimand = "success"\nexclusions = []', 11, "always excluded"),
        ('estimand = "success"\n', "", 8, "estimand is needed"),
        ("[prereg]", "[settings]\nbudget = 5\n[prereg]", 9, "no setting of a plan"),
        ("[prereg]", "[settings]\nallow_weaker_sandbox = true\n[prereg]", 9, "belongs to the machine"),
        ("[prereg]", '[settings]\nexecutor = "ray"\n[prereg]', 9, "belongs to the machine"),
        ("[prereg]", "[arm.odd]\nlike = 'single'\n[prereg]", 8, "in no part"),
        ("[prereg]", "[arm.single]\nlimit = 5\n[prereg]", 9, "the same tasks"),
        ("[prereg]", "[arm.single]\nseeds = 5\n[prereg]", 9, "the same tasks"),
        ("[prereg]", "[arm.single]\nbudget = 5\n[prereg]", 9, "have the same"),
        ("[prereg]", "[arm.single]\ndwel = 5\n[prereg]", 9, "did you mean 'dwell'"),
        ("[prereg]", "[arm.single]\ndwell = 'x'\n[prereg]", 9, "a whole number of 0 or more is needed"),
        ("[prereg]", PART + "[prereg]", 3, "two parts are called 'main'"),
    ],
)
def test_what_a_plan_may_not_say_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in PART + CLAIM
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, (PART + CLAIM).replace(old, new, 1))
    assert words in f"{refused.value.cause} {refused.value.remedy}"
    assert f"plan.toml:{line}: " in refused.value.cause, refused.value.cause


@pytest.mark.parametrize("text", ["", "part = 3\n", "[[part]]\n", "= 3\n", "a = [" * 2000])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"plan\.toml"):
        plan(tmp_path, text)


def test_a_claim_about_one_of_several_budgets_says_which(tmp_path: Path) -> None:
    ladder = PART.replace("limit = 40", "limit = 40\nbudgets = [500, 900]")
    with pytest.raises(ConfigError, match="none is named"):
        plan(tmp_path, ladder + CLAIM)
    assert plan(tmp_path, f"{ladder}{CLAIM}budget = 900\n").prereg.budget == 900  # type: ignore[union-attr]  # it has one
    with pytest.raises(ConfigError, match="no rung"):
        plan(tmp_path, f"{ladder}{CLAIM}budget = 700\n")


@pytest.mark.parametrize("name", ["headline", "ladder", "ablations"])
def test_the_examples_are_plans(name: str) -> None:
    if not EXAMPLES.is_dir():
        pytest.skip("not a checkout: the examples are not in the wheel")
    assert read_plan_file(EXAMPLES / f"{name}.toml").parts


@pytest.mark.parametrize("name", ["headline", "ladder", "ablations"])
def test_the_page_shows_the_sizes_of_the_examples(name: str) -> None:
    page = EXAMPLES.parents[1] / "docs" / "experiments.md"
    if not page.is_file():
        pytest.skip("not a checkout: pages and examples are not in the wheel")
    found = read_plan_file(EXAMPLES / f"{name}.toml")
    assert f"{found.name}: {sum(part.size for part in found.parts):,} episodes" in page.read_text()
    for part in found.parts[:1]:
        size = f"{part.size:,} = {len(part.arms)} arms x {part.limit} tasks x {part.seeds} seeds"
        assert size in page.read_text()
        assert f"at most {part.token_bound:,}" in page.read_text()


def test_a_level_that_resampling_does_not_resolve_is_refused_where_a_bound_is_resampled(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"plan.toml:13: prereg: alpha 0.0009 is finer than the 10,000 resamples"
    ) as found:
        plan(tmp_path, f"{PART}{CLAIM}alpha = 0.0009\n")
    assert found.value.remedy.startswith("alpha = 0.001 or more")
    coarser = plan(tmp_path, f"{PART}{CLAIM}alpha = 0.001\n").prereg
    looks = 'stop = "sequential"\nlooks = [20, 40]\nalpha = 0.0009\n'
    anytime = plan(tmp_path, f'{PART}best_static = "static_star"\n{CLAIM}{looks}').prereg
    assert coarser is not None and coarser.alpha == 0.001
    assert anytime is not None and anytime.alpha == 0.0009


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{PART}budgets = [9000, 5000]\n", ":7: budgets: the rungs do not increase"),
        (f"{PART}budgets = [199, 5000]\n", ":7: budgets: 199 tokens cannot pay for one call"),
        (PART.replace('"main"', '"looks.jsonl"'), ":3: name: 'looks.jsonl' is a file of the experiment's folder"),
        (PART.replace('"main"', f'"{"m" * 101}"'), ":3: name: 101 characters are too many"),
        (PART + PART.replace('"main"', '"late"').replace("40", "0"), ":11: limit: a whole number"),
        (f"{PART}{CLAIM}part = 'mian'\n", ":13: prereg: part 'mian' is not in the plan"),
        (f"{PART}{CLAIM}claim = 0.3\n", ":13: prereg: a lift of 0.3 cannot be had where the arms differ on 0.21"),
        (
            f'{PART}best_static = "static_star"\n{CLAIM}'.replace('["static_star", "single"]\n', '["single"]\n'),
            ":13: prereg: against leaves out 'static_star', the best static topology of part 'main'",
        ),
        (f"{PART}{CLAIM}discordance = 0.01\n", ":13: prereg: a lift of 0.05 cannot be had"),
        (f"{PART}[settings]\nbudget_safety = inf\n", ":8: budget_safety: a finite number is needed, not inf"),
        (f"{PART}[settings]\nsuite_options = {{ data = 2026-01-01 }}\n", "data: a date or time is no value of a plan"),
        (f'{PART}[arm.single]\nlike = "manager"\n', ":8: arm 'single' is a baseline's name"),
        (f"{PART}[arm.single]\nteam_size = 0\n", ":8: arm 'single': team_size: a whole number above 0"),
        (f"{PART}[arm.single]\ntopologies = []\n", ":8: arm 'single': topologies: a list of names is needed"),
        (f"{PART}[arm.single]\noptions = {{ x = [nan] }}\n", "x: a finite number is needed, not nan"),
    ],
)
def test_a_plan_that_contradicts_itself_is_one_line_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as found:
        plan(tmp_path, text)
    assert f"plan.toml{words}" in found.value.cause or (words[0] != ":" and words in found.value.cause)
    assert found.value.remedy


def test_a_mark_at_the_beginning_of_a_file_says_nothing(tmp_path: Path) -> None:
    assert plan(tmp_path, "\ufeff" + PART).digest == plan(tmp_path, PART).digest
