"""The settings of ``drr_wred``: what each service class weighs, and when it is refused early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apex_framework.errors import ConfigError
from apex_framework.interfaces import MessagePriority

CLASSES = tuple(MessagePriority)
"""Most urgent first."""


@dataclass(frozen=True, slots=True)
class ServiceClass:
    """One class: ``weight`` messages per round; refused with probability slope * (o - threshold) / (1 - threshold)."""

    name: MessagePriority
    weight: int
    threshold: float
    """Occupancy o of the lane, in [0, 1], above which early refusal begins."""
    slope: float
    """Probability of refusal at the brim, in [0, 1]."""

    def refusal(self, occupancy: float) -> float:
        """Probability in [0, 1] that a message of this class is refused at an occupancy."""
        if occupancy <= self.threshold:
            return 0.0
        return self.slope * (occupancy - self.threshold) / (1 - self.threshold)


DEFAULT = (
    ServiceClass(MessagePriority.FINAL, 8, 0.95, 0.5),
    ServiceClass(MessagePriority.DRAFT, 3, 0.80, 0.8),
    ServiceClass(MessagePriority.CRITIC, 1, 0.60, 1.0),
)


def service_classes(
    weights: Mapping[str, Any] | None, thresholds: Mapping[str, Any] | None, slopes: Mapping[str, Any] | None, spec: str
) -> tuple[ServiceClass, ...]:
    """The classes with some of their settings changed; ``spec`` is three weights, as in ``8,3,1``.

    Raises ConfigError for an unknown class or an impossible value.
    """
    if spec:
        if weights is not None:
            raise ConfigError("drr_wred: weights are given twice", f"leave out the option weights, or ':{spec}'")
        weights = _spec(spec)
    known = {c.name.value: c for c in DEFAULT}
    for what, given in (("weights", weights), ("thresholds", thresholds), ("slopes", slopes)):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(f"drr_wred: {what} is a {type(given).__name__}, not a table by class")
        if unknown := sorted(str(name) for name in given or {} if name not in known):
            raise ConfigError(f"drr_wred: unknown class {unknown[0]!r} in {what}", f"known: {', '.join(known)}")
    return tuple(
        ServiceClass(
            c.name,
            _weight(c.name, (weights or {}).get(c.name, c.weight)),
            _share("threshold", c.name, (thresholds or {}).get(c.name, c.threshold), below_one=True),
            _share("slope", c.name, (slopes or {}).get(c.name, c.slope), below_one=False),
        )
        for c in DEFAULT
    )


def _spec(spec: str) -> dict[str, int]:
    try:
        numbers = [int(part) for part in spec.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(CLASSES):
        names = ", ".join(c.value for c in CLASSES)
        raise ConfigError(f"drr_wred needs three weights ({names}), not {spec!r}", "e.g. drr_wred:8,3,1")
    return {c.value: n for c, n in zip(CLASSES, numbers, strict=True)}


def _weight(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 1000:
        raise ConfigError(f"drr_wred: the weight of {name} is {value!r}, not an integer from 1 to 1000")
    return value


def _share(what: str, name: str, value: Any, *, below_one: bool) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1 or (below_one and value == 1):
        raise ConfigError(f"drr_wred: the {what} of {name} is {value!r}, not in [0, 1{')' if below_one else ']'}")
    return float(value)
