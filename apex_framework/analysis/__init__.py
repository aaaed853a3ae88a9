"""Statistics over artifacts. numpy and scipy are imported when a function needs them."""

from ..experiment.layout import episode_folder
from .answer import Answer, answer_of, answer_runs, no_verdict, percentile
from .arms import ArmRole, arm_role
from .checkpoint import checkpoint_bytes, checkpoint_digest, read_checkpoint, write_checkpoint
from .curves import CurvePoint, SuccessCurve, rungs_of, success_curves
from .episodes import EpisodeRow, RunData, iterate_lines, merge_runs, read_episodes, read_run, require_one_digest
from .gate import Gate, GateCheck, evaluate_gate
from .intervals import Interval, clopper_pearson_upper, newcombe_paired, wilson
from .lift import Lift, PairedTask, Pairing, estimate_lift, lift_between, pair
from .logged import logged_arm, logged_episodes, logged_observation
from .mcnemar import holm, mcnemar_exact, mcnemar_mid_p
from .noninferiority import Certainty, NonInferiority, non_inferiority
from .off_policy import Estimate, LoggedDecision, LoggedEpisode, OffPolicyValue, Overlap, off_policy_value
from .power import (
    PowerPlan,
    detectable_lift,
    effective_tasks,
    margin_tasks,
    paired_power,
    plan_power,
    sequential_power,
    tasks_needed,
)
from .resampling import bca_interval, mean_interval, ratio_interval, sign_flip_interval, sign_flip_p
from .sequential import (
    Look,
    Sequential,
    better_than_all,
    e_value,
    e_value_of_counts,
    e_value_two_sided,
    sequential_test,
)
from .shares import share_interval
from .shift import Shift, cost_shifts, hodges_lehmann, paired_shift
from .summary import (
    ArmSummary,
    BudgetSafety,
    budget_safety,
    oracle_success,
    repeated_success,
    success_at_budget,
    summarize_arm,
    summarize_families,
)
from .verdict import Verdict, Word, decide, p_text, points

__all__ = [
    "Answer",
    "ArmRole",
    "ArmSummary",
    "BudgetSafety",
    "Certainty",
    "CurvePoint",
    "EpisodeRow",
    "Estimate",
    "Gate",
    "GateCheck",
    "Interval",
    "Lift",
    "LoggedDecision",
    "LoggedEpisode",
    "Look",
    "NonInferiority",
    "OffPolicyValue",
    "Overlap",
    "PairedTask",
    "Pairing",
    "PowerPlan",
    "RunData",
    "Sequential",
    "Shift",
    "SuccessCurve",
    "Verdict",
    "Word",
    "answer_of",
    "answer_runs",
    "arm_role",
    "bca_interval",
    "better_than_all",
    "budget_safety",
    "checkpoint_bytes",
    "checkpoint_digest",
    "clopper_pearson_upper",
    "cost_shifts",
    "decide",
    "detectable_lift",
    "e_value",
    "e_value_of_counts",
    "e_value_two_sided",
    "effective_tasks",
    "episode_folder",
    "estimate_lift",
    "evaluate_gate",
    "hodges_lehmann",
    "holm",
    "iterate_lines",
    "lift_between",
    "logged_arm",
    "logged_episodes",
    "logged_observation",
    "margin_tasks",
    "mcnemar_exact",
    "mcnemar_mid_p",
    "mean_interval",
    "merge_runs",
    "newcombe_paired",
    "no_verdict",
    "non_inferiority",
    "off_policy_value",
    "oracle_success",
    "p_text",
    "pair",
    "paired_power",
    "paired_shift",
    "percentile",
    "plan_power",
    "points",
    "ratio_interval",
    "read_checkpoint",
    "read_episodes",
    "read_run",
    "repeated_success",
    "require_one_digest",
    "rungs_of",
    "sequential_power",
    "sequential_test",
    "share_interval",
    "sign_flip_interval",
    "sign_flip_p",
    "success_at_budget",
    "success_curves",
    "summarize_arm",
    "summarize_families",
    "tasks_needed",
    "wilson",
    "write_checkpoint",
]
