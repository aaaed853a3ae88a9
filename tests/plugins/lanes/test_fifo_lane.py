"""The fifo lane does what every lane must."""

from apex_lanes.fifo import Fifo

from apex_framework.testing.lane import check_lane


def test_fifo_conforms() -> None:
    check_lane(Fifo)
