"""Statistics over artifacts. numpy and scipy are imported when a function needs them."""

from .answer import Answer, answer_of, answer_runs, percentile
from .arms import ArmRole, arm_role
from .checkpoint import checkpoint_bytes, checkpoint_digest, read_checkpoint, write_checkpoint
from .episodes import EpisodeRow, RunData, merge_runs, read_episodes, read_run, require_one_digest
from .gate import Gate, GateCheck, evaluate_gate
from .intervals import Interval, clopper_pearson_upper, newcombe_paired, wilson
from .lift import Lift, PairedTask, Pairing, estimate_lift, lift_between, pair
from .mcnemar import holm, mcnemar_exact, mcnemar_mid_p
from .power import PowerPlan, detectable_lift, paired_power, plan_power, tasks_needed
from .resampling import bca_interval, mean_interval, sign_flip_interval, sign_flip_p
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
from .verdict import Verdict, Word, decide, points

__all__ = [
    "Answer",
    "ArmRole",
    "ArmSummary",
    "BudgetSafety",
    "EpisodeRow",
    "Gate",
    "GateCheck",
    "Interval",
    "Lift",
    "PairedTask",
    "Pairing",
    "PowerPlan",
    "RunData",
    "Verdict",
    "Word",
    "answer_of",
    "answer_runs",
    "arm_role",
    "bca_interval",
    "budget_safety",
    "checkpoint_bytes",
    "checkpoint_digest",
    "clopper_pearson_upper",
    "decide",
    "detectable_lift",
    "estimate_lift",
    "evaluate_gate",
    "holm",
    "lift_between",
    "mcnemar_exact",
    "mcnemar_mid_p",
    "mean_interval",
    "merge_runs",
    "newcombe_paired",
    "oracle_success",
    "pair",
    "paired_power",
    "percentile",
    "plan_power",
    "points",
    "read_checkpoint",
    "read_episodes",
    "read_run",
    "repeated_success",
    "require_one_digest",
    "sign_flip_interval",
    "sign_flip_p",
    "success_at_budget",
    "summarize_arm",
    "summarize_families",
    "tasks_needed",
    "wilson",
    "write_checkpoint",
]
