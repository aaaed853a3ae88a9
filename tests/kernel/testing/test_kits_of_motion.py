"""Kits of topologies, lanes and transports: each shipped broken plugin fails exactly its check; the sound ones pass."""

from __future__ import annotations

import pytest

from apex_framework.testing.broken import lane as broken_lanes
from apex_framework.testing.broken import topology as broken_topologies
from apex_framework.testing.broken import transport as broken_transports
from apex_framework.testing.conformance import ConformanceError
from apex_framework.testing.lane import check_lane
from apex_framework.testing.topology import check_topology
from apex_framework.testing.transport import check_transport


def test_a_sound_topology_passes() -> None:
    check_topology(broken_topologies.Sound)


@pytest.mark.parametrize("check", broken_topologies.BROKEN)
def test_a_broken_topology_fails_exactly_its_check(check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_topology(broken_topologies.BROKEN[check])
    assert caught.value.failed == (check,)


def test_a_sound_lane_passes() -> None:
    check_lane(broken_lanes.Discipline)


@pytest.mark.parametrize("check", broken_lanes.BROKEN)
def test_a_broken_lane_fails_exactly_its_check(check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_lane(broken_lanes.BROKEN[check])
    assert caught.value.failed == (check,)


def test_a_sound_transport_passes() -> None:
    check_transport(broken_transports.Sound)


@pytest.mark.parametrize("check", broken_transports.BROKEN)
def test_a_broken_transport_fails_exactly_its_check(check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_transport(broken_transports.BROKEN[check])
    assert caught.value.failed == (check,)
