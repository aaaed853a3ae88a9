"""The fifo lane does what every lane must."""

from apex_framework.testing.lane import check_lane
from apex_lanes.fifo import Fifo


def test_fifo_conforms() -> None:
    check_lane(Fifo)
