"""A session: a team at work, without task or experiment; volatile by default, durable with a journal."""

from .desk import Desk
from .durable import DurableLog, InDoubt
from .durable_desk import E_IN_DOUBT
from .parts import Services, SessionEnd, Step
from .session import Session
from .supervision import check_times

__all__ = ["E_IN_DOUBT", "Desk", "DurableLog", "InDoubt", "Services", "Session", "SessionEnd", "Step", "check_times"]
