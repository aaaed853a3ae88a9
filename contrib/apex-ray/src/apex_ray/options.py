"""Options as they are written behind the executor's name: ``ray:address=head:6379,env=OPENAI_API_KEY+HF_TOKEN``."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, fields

from apex_framework.errors import ConfigError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Options:
    """How the cluster is found, and what an episode may take there."""

    address: str = ""
    """``HOST:PORT`` of the cluster's head, or ``local``: Ray is started here and ends with the run. Empty: RAY_ADDRESS, else a
    cluster that this machine is a part of, else ``local``."""
    env: tuple[str, ...] = ()
    """Environment variables that are sent to the workers besides those of APEX."""
    cpus: float = 1.0
    """Ray's CPUs that each worker takes."""
    limit_s: float = 900.0
    """Wall seconds that one episode may take."""
    connect_s: float = 30.0
    """Wall seconds that the cluster has to answer."""
    start_s: float = 120.0
    """Wall seconds that the cluster has to give a worker when there is none."""

    @classmethod
    def read(cls, spec: str) -> Options:
        """Raises ConfigError for an option that is unknown, has no value, or an impossible one."""
        values: dict[str, object] = {}
        known = [f.name for f in fields(cls)]
        for part in filter(None, (part.strip() for part in spec.split(","))):
            name, _, value = (text.strip() for text in part.partition("="))
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                remedy = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
                raise ConfigError(f"executor ray takes no option {name!r}", remedy)
            if not value:
                raise ConfigError(f"executor ray: option {name!r} has no value", f"write {name}=VALUE")
            values[name] = _READ[name](name, value)
        return cls(**values)  # type: ignore[arg-type]  # each was read as what its field is


def _address(name: str, value: str) -> str:
    if value.startswith("ray://"):
        raise ConfigError(
            f"executor ray: {value} is for Ray's client, which this executor does not use",
            "run apex on a machine of the cluster, with address=HOST:6379 or none",
        )
    host, _, port = value.rpartition(":")
    if value not in ("auto", "local") and not (host and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"executor ray: address={value} is no HOST:PORT", "address=HOST:6379, or address=local")
    return value


def _variables(name: str, value: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in value.split("+"))
    if wrong := next((part for part in names if not _VARIABLE.fullmatch(part)), None):
        raise ConfigError(f"executor ray: {wrong!r} is no name of a variable", "env=NAME+NAME")
    return names


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not 0 < number <= 1_000_000:
        raise ConfigError(f"executor ray: {name}={value} is not a positive number")
    return number


_READ = {"address": _address, "env": _variables} | dict.fromkeys(("cpus", "limit_s", "connect_s", "start_s"), _number)
