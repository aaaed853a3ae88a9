"""Teams: rosters of every size, tools by role, and who works with whom."""

from __future__ import annotations

import pytest

from apex_agents.coder import Coder
from apex_agents.manager import Employee, ManagerTeam
from apex_agents.planner import Planner
from apex_agents.runner import Runner
from apex_agents.solo import SingleTeam
from apex_agents.swe import ROLES, SweTeam
from apex_framework.interfaces import Brief

BRIEF = Brief("it breaks", "t", 0)


@pytest.mark.parametrize("size", range(3, 11))
def test_a_swe_team_has_the_first_three_roles_and_no_id_that_means_a_whole_role(size: int) -> None:
    roster = SweTeam().roster(size)
    roles = [m.role for m in roster.members]
    assert len(set(roster.ids)) == size and {"planner", "coder", "runner"} <= set(roles) <= set(ROLES)
    assert roster.lead == "planner" and roles == sorted(roles, key=ROLES.index)
    for member in roster.members:
        assert member.id not in ROLES or roles.count(member.role) == 1
        assert roster.resolve(member.id) == (member.id,)


@pytest.mark.parametrize("size", range(3, 11))
def test_every_coder_has_a_runner_and_every_pair_gets_the_focus(size: int) -> None:
    roster = SweTeam().roster(size)
    agents = SweTeam().agents(roster, BRIEF)
    assert [a.id for a in agents] == list(roster.ids) and [a.role for a in agents] == [m.role for m in roster.members]
    coders = [a for a in agents if isinstance(a, Coder)]
    runners = {str(a.id) for a in agents if isinstance(a, Runner)}
    assert {c.runner for c in coders} <= runners and [c.start for c in coders] == list(range(len(coders)))
    planner = next(a for a in agents if isinstance(a, Planner))
    reached = [who for audience in planner.workers for who in roster.resolve(audience)]
    assert sorted(reached) == sorted({str(c.id) for c in coders} | runners)
    assert all(len(roster.resolve(audience)) <= 2 for audience in planner.workers)


def test_impossible_sizes_are_refused() -> None:
    for team, size in ((SweTeam(), 2), (SweTeam(), 11), (SingleTeam(), 2), (ManagerTeam(), 3)):
        with pytest.raises(ValueError, match=r"members?, not"):
            team.roster(size)


def test_the_manager_team_is_a_swe_team_with_one_more_who_leads() -> None:
    team = ManagerTeam()
    roster = team.roster()
    assert [m.role for m in roster.members] == ["manager", *ROLES] and roster.lead == "manager"
    assert all(isinstance(a, Employee) for a in team.agents(roster, BRIEF)[1:])
    assert team.tools("manager") == frozenset() and team.tools("coder") == SweTeam().tools("coder")


def test_only_the_coder_writes_and_only_runner_and_critic_run_tests() -> None:
    tools = {role: SweTeam().tools(role) for role in ROLES}
    assert [r for r in ROLES if tools[r] & {"fs.patch", "fs.write"}] == ["coder"]
    assert [r for r in ROLES if "test.run" in tools[r]] == ["runner", "critic"]
    assert [r for r in ROLES if "fs.read" in tools[r]] == ["coder"]
