"""What can be set: every setting with its default, and how texts become values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from ..errors import ConfigError
from ..interfaces.budget import MOST_TOKENS, ceiling

CEILINGS = {
    "budget_ms",
    "run_budget",
    "day_budget",
    "role_budgets",
    "approximator_bias_pct",
    "budgets",
    "controller_file",
}
"""Settings that are nothing unless somebody says them; saying null is a mistake."""
_BUDGETS = CEILINGS | {"budget_safety", "budget_group", "day_store", "plan_cache"}

CALLS = {"first_token_s", "idle_s", "call_deadline_s", "call_retries", "warm_calls"}
"""Settings of calls to models, which a run's jobs carry where they are not the usual ones."""

CONFINING = {"sandbox", "allow_weaker_sandbox"}
"""Settings of what confines task code, which a run's jobs carry where they are not the usual ones."""

TOOLS = {"tool_seconds", "agent_tool_seconds", "tool_loop_after", "tool_result_bytes"}
"""Limits of the door to tools, which a run's jobs carry where they are not the usual ones."""


def _list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _controllers(value: object) -> object:
    # A controller's options hold commas ("schedule:star,chain,flat"): in one text, controllers are apart by blanks.
    return value.split() if isinstance(value, str) else value


def backend_table(value: object) -> object:
    """Role -> backend, of the text ``repair`` or ``coder=vllm,*=repair``; what is no text stays as it is."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    return {role.strip() if eq else "*": (name if eq else role).strip() for role, eq, name in pairs}


def _with_others(value: dict[str, str]) -> dict[str, str]:
    return value if "*" in value else {**value, "*": "repair"}


def _tokens(value: object) -> int:
    """A ceiling: digits from a variable or a flag are a number, too. Null is no ceiling, and not unlimited."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    try:
        return ceiling(value, "a ceiling", least=1)
    except ConfigError as error:
        raise ValueError(error.cause) from None


def _roles(value: object) -> object:
    """``coder=6000,planner=3000``; roles in small letters."""
    table = backend_table(value)
    if not isinstance(table, dict) or "*" in table:
        raise ValueError("roles and their tokens are needed: coder=6000,planner=3000")
    return {
        str(role).lower(): 0 if tokens in (0, "0") and tokens is not False else _tokens(tokens)
        for role, tokens in table.items()
    }


def _suite_options(value: object) -> object:
    """``data=lite.jsonl,repos=clones``; names and texts."""
    table = backend_table(value) if value else {}
    if not isinstance(table, dict) or "*" in table:
        raise ValueError("options and their values are needed: data=lite.jsonl,repos=clones")
    return {str(name): str(text) for name, text in table.items()}


def _no_single(value: int) -> int:
    if value == 1:
        raise ValueError("one result is no loop: 2 to 64, or 0 for never")
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_list)]
Tokens = Annotated[int, BeforeValidator(_tokens)]


def _is_number(annotation: object) -> bool:
    """Whether a setting is an integer or a float, perhaps one that may be unset."""
    if get_origin(annotation) is dict:
        return False
    return annotation in (int, float) or any(map(_is_number, get_args(annotation)))


class Settings(BaseModel):
    """Everything that can be set, with its default."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    suite: str = Field("mini", description="Suite of tasks; suite/split names both.")
    suite_options: Annotated[dict[str, str], BeforeValidator(_suite_options)] = Field(
        default_factory=dict, description="Options of the suite: data=lite.jsonl,repos=clones."
    )
    split: Literal["train", "dev", "test"] = Field("dev", description="Part of the suite that is worked on.")
    episodes: PositiveInt = Field(16, description="Tasks per arm.")
    budget: PositiveInt = Field(10_000, le=MOST_TOKENS, description="Tokens per episode.")
    budget_ms: Tokens | None = Field(None, description="Milliseconds that an episode's model calls may take together.")
    budget_safety: float = Field(
        1.0, ge=1, le=100, allow_inf_nan=False, description="Margin on the estimate of a prompt's tokens."
    )
    run_budget: Tokens | None = Field(None, description="Tokens of a run, over all its workers and resumptions.")
    day_budget: Tokens | None = Field(
        None, description="Tokens of a day (UTC), over all processes that share day_store."
    )
    day_store: Path | None = Field(
        None, description="File of the day's ceiling; by default in the user's state folder."
    )
    budget_group: str = Field(
        "default", min_length=1, description="Whose day it is: runs of one group share a ceiling."
    )
    role_budgets: Annotated[dict[str, int], BeforeValidator(_roles)] = Field(
        default_factory=dict, description="Tokens per role and episode: coder=6000,planner=3000."
    )
    approximator_bias_pct: float | None = Field(
        None,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="Percent that an estimate of tokens is raised by; at least 10.",
    )
    budgets: Path | None = Field(None, description="A budgets.yaml: ceilings where nothing else says them.")
    controller_file: Path | None = Field(None, description="A controller.yaml: settings where nothing else says them.")
    seed: int = Field(0, ge=0, description="Seed of everything random.")
    workers: PositiveInt = Field(2, description="Processes that run episodes.")
    team: str = Field("swe", description="Who works together.")
    backend: Annotated[dict[str, str], BeforeValidator(backend_table), AfterValidator(_with_others)] = Field(
        default_factory=lambda: {"*": "repair"}, description="Backend per role, * for all others: coder=vllm,*=repair."
    )
    topology_set: Names = Field(("star", "chain", "flat"), min_length=1, description="Topologies to choose from.")
    controllers: Annotated[tuple[str, ...], BeforeValidator(_controllers)] = Field(
        ("bandit_v1",), min_length=1, description="One arm each; in one text, apart by blanks."
    )
    baselines: bool = Field(True, description="Also run the static topologies and the single agent.")
    lane: str = Field("fifo", description="Order of service in front of an agent.")
    transport: str = Field("inproc", description="Way of messages between agents.")
    scopes: Names = Field(("episode",), min_length=1, description="Ceilings that every call must respect.")
    policies: Names = Field((), description="Rules that may deny messages, model calls and tool calls, in order.")
    interceptors: Names = Field((), description="Advice around messages and calls, the outermost first.")
    plan_cache: str = Field("", description="Options of interceptor plan_cache where it is named without any.")
    tools: Names = Field(("fs", "test"), description="Tool servers of the agents.")
    mcp_servers: Path | None = Field(
        None, description="An mcpServers JSON file: outside MCP servers as further tools, named server.tool."
    )
    tool_scopes: Names = Field((), description="Scopes that agents hold: mcp:NAME lets them call an outside server.")
    tool_seconds: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Seconds that all tool calls of an episode may take together."
    )
    agent_tool_seconds: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Seconds that the tool calls of one agent may take together."
    )
    tool_loop_after: Annotated[int, AfterValidator(_no_single)] = Field(
        20, ge=0, le=64, description="Refuse a tool call that had the same result so many times in a row; 0: never."
    )
    tool_result_bytes: int = Field(
        8 * 2**20, ge=1024, description="Tool results above this are kept aside and read in pages."
    )
    workspace: str = Field("auto", description="Where tasks are worked on; auto: where their suite wants it.")
    sandbox: str = Field(
        "auto", description="What confines the code of tasks; auto: as strong as can be where others wrote it."
    )
    allow_weaker_sandbox: bool = Field(False, description="Run others' code in a sandbox that does not hold it.")
    executor: str = Field("local", description="Where episodes are run.")
    exporters: Names = Field(
        (), description="Ways out for events and metrics; options behind a colon: jsonl:folder=out."
    )
    hist_buckets: Path | None = Field(None, description="File of histogram buckets: metric or unit = upper bounds.")
    dwell: int = Field(2, ge=0, description="Steps that a topology lasts at least.")
    cooldown: int = Field(2, ge=0, description="Steps without a switch after a switch.")
    quiesce_deadline_ms: float = Field(
        50.0, gt=0, allow_inf_nan=False, description="Time that a switch may wait for quiet."
    )
    on_busy: Literal["drain", "migrate"] = Field("migrate", description="At a switch, messages for a busy agent.")
    message_ttl_s: float = Field(60.0, gt=0, allow_inf_nan=False, description="Seconds that a message may wait.")
    handler_deadline_s: float = Field(
        3600.0, gt=0, allow_inf_nan=False, description="Seconds that handling one message may take."
    )
    lane_capacity: PositiveInt = Field(10_000, description="Messages in front of one agent.")
    lane_bytes: PositiveInt | None = Field(None, description="Payload bytes in front of one agent.")
    total_bytes: PositiveInt | None = Field(None, description="Payload bytes in front of all agents together.")
    dedup_cap: int = Field(50_000, ge=0, description="Messages that each agent remembers, to flag repeated ones.")
    strict_pair_fifo: bool = Field(False, description="Nothing overtakes between two agents.")
    throttle: bool = Field(False, description="Senders wait when a lane fills.")
    relief: str = Field("", description="Topology to ask for under sustained pressure; needs throttle.")
    parallel_prepare: bool = Field(True, description="Warm-ups of a switch at once.")
    prevalidate: bool = Field(False, description="Probe a target before switching to it.")
    health_pin: bool = Field(False, description="Pin to chain on evidence of broken promises or a slow controller.")
    candidates: PositiveInt = Field(8, description="Edits per repair answer, the same for all arms.")
    first_token_s: float = Field(
        60.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds until a live model's first token; 0: its backend's own limit.",
    )
    idle_s: float = Field(
        30.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds between two pieces of an answer; 0: its backend's own limit.",
    )
    call_deadline_s: float = Field(
        60.0, gt=0, allow_inf_nan=False, description="Seconds that a model call may take, retries included."
    )
    call_retries: int = Field(2, ge=0, description="Times that a model is asked again where nothing was charged.")
    warm_calls: int = Field(5, ge=0, description="Calls that warm up each live model of each worker, measured nowhere.")
    resident_models: PositiveInt | None = Field(None, description="Local models that a worker keeps loaded at once.")
    real_time: bool = Field(False, description="The machine's clock instead of virtual time.")
    out: Path | None = Field(None, description="Run folder; by default a new one under runs/.")

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        # pydantic reads true as 1: "budget: true" would be a budget of one token.
        if isinstance(value, bool) and _is_number(cls.model_fields[str(info.field_name)].annotation):
            raise ValueError("a number is needed, not true or false")
        return value

    @property
    def unsaid(self) -> set[str]:
        """Budgets, limits of calls and the sandbox, where they are as they are where nobody says anything: a run's configuration need not repeat them."""
        return {
            name
            for name in _BUDGETS | CALLS | CONFINING | TOOLS
            if getattr(self, name) == type(self).model_fields[name].get_default(call_default_factory=True)
        }


def json_schema() -> dict[str, Any]:
    """JSON schema of a configuration file."""
    return Settings.model_json_schema()
