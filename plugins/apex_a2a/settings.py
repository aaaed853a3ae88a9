"""What an operator says in ``a2a.toml``: read strictly, nothing open by default."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from apex_framework.errors import ConfigError

T = TypeVar("T")

BINDINGS: Final = ("JSONRPC", "GRPC")
"""Ways in which remotes are spoken to."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may talk to us. Quotas are per process; ``tokens`` for as long as it runs."""

    token_sha256: str
    roles: tuple[str, ...] = ()
    """Roles that it may speak as in its own running tasks; none by default."""
    audiences: tuple[str, ...] = ()
    """Roles that it may then speak to."""
    tasks: int = 2
    """Tasks at work at once."""
    kept: int = 20
    """Tasks that are remembered, the oldest finished one forgotten first."""
    bytes_per_minute: int = 8 * 1024 * 1024
    tokens: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Server:
    """Where we listen, and how much a client may ask of the machine. Times in seconds."""

    host: str = "127.0.0.1"
    port: int = 8700
    grpc_port: int = 0
    """0: no gRPC."""
    public_url: str = ""
    """Base of the addresses in the card; empty: those that are listened on."""
    body_bytes: int = 512 * 1024
    depth: int = 32
    header_s: float = 10.0
    body_s: float = 15.0
    connections: int = 256
    requests: int = 16
    """Requests and streams of one principal at once."""


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """How a task is worked on. ``budget`` in tokens per task, ``seconds`` per task."""

    team: str = "swe"
    team_size: int = 5
    topology: str = "star"
    backend: str = "repair"
    workspace: str = "local"
    budget: int = 10_000
    seconds: float = 600.0
    tasks_at_once: int = 4
    max_steps: int = 200
    sandbox: str = ""
    """Name of the sandbox for task code; empty: the strongest that works here."""
    trust_task_code: bool = False
    """Run the tests that outsiders send although the sandbox is weaker than such code demands."""


@dataclass(frozen=True, slots=True)
class Push:
    """Notifications to addresses that clients name. Off by default."""

    enabled: bool = False
    plain_http: bool = False
    allow: tuple[str, ...] = ()
    """Networks that may be connected to although they are not public, e.g. ``10.1.2.0/24``."""
    deadline_s: float = 10.0


@dataclass(frozen=True, slots=True)
class CardKey:
    """A public key of the operator's store, for cards of others. ``not_after`` is a date, empty: it does not end."""

    alg: str
    pem: str
    not_after: str = ""


@dataclass(frozen=True, slots=True)
class Signing:
    """How our own card is signed; no ``key``: not at all."""

    key: str = ""
    """Path of a private key in PEM form."""
    kid: str = ""
    alg: str = "ES256"


@dataclass(frozen=True, slots=True)
class Remote:
    """An outside agent as a member of the team. Its answers go to ``audiences`` only; prices are in tokens per answer."""

    url: str
    role: str
    audiences: tuple[str, ...]
    token_env: str = ""
    """Environment variable that holds the token for it."""
    deadline_s: float = 120.0
    price: int = 2_000
    """Charged when it does not say what an answer took, and reserved before it is asked."""
    least: int = 1
    """Charged at least, whatever it says."""
    binding: str = "JSONRPC"
    """How it is spoken to, of what its card offers: ``JSONRPC`` or ``GRPC``."""
    card: str = ""
    """File of its card, for one that serves none; empty: it is asked for at ``url``."""
    signed: bool = True
    """Its card must have a signature of the store's keys."""


@dataclass(frozen=True)
class Settings:
    """The whole file."""

    server: Server = field(default_factory=Server)
    work: WorkPlan = field(default_factory=WorkPlan)
    push: Push = field(default_factory=Push)
    signing: Signing = field(default_factory=Signing)
    principals: Mapping[str, Principal] = field(default_factory=dict)
    keys: Mapping[str, CardKey] = field(default_factory=dict)
    remotes: Mapping[str, Remote] = field(default_factory=dict)


def read_settings(path: Path) -> Settings:
    """The settings in a TOML file. Raises ConfigError: which file, which setting, what to write."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}", "give a readable file: --config a2a.toml") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}", "write TOML") from None
    return settings_from(data, str(path))


def settings_from(data: Mapping[str, Any], where: str = "a2a settings") -> Settings:
    """The settings in plain tables. Raises ConfigError."""
    single = {"server": Server, "work": WorkPlan, "push": Push, "signing": Signing}
    many = {"principals": Principal, "keys": CardKey, "remotes": Remote}
    if unknown := sorted(set(data) - set(single) - set(many)):
        raise ConfigError(f"{where}: unknown table [{unknown[0]}]", f"known: {', '.join([*single, *many])}")
    values: dict[str, Any] = {}
    for name, table in data.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"{where}: {name} is no table", f"write [{name}]")
        if name in single:
            values[name] = _table(single[name], table, f"{where}: [{name}]")
        else:
            values[name] = {key: _table(many[name], each, f"{where}: [{name}.{key}]") for key, each in table.items()}
    settings = Settings(**values)
    _check(settings, where)
    return settings


def token_hash(token: str) -> str:
    """What stands in the settings for a token: the settings alone let nobody in."""
    return hashlib.sha256(token.encode()).hexdigest()


def _check(settings: Settings, where: str) -> None:
    seen: dict[str, str] = {}
    for name, principal in settings.principals.items():
        if not name.isidentifier() or len(name) > 64:
            raise ConfigError(f"{where}: principal {name!r}", "a name of letters, digits and _, at most 64")
        digits = principal.token_sha256
        if len(digits) != 64 or set(digits) - set("0123456789abcdef"):
            raise ConfigError(f"{where}: token_sha256 of {name} is no SHA-256", "make one: apex a2a token")
        if digits in seen:
            raise ConfigError(f"{where}: {name} and {seen[digits]} have one token", "give each its own")
        seen[digits] = name
    for kid, key in settings.keys.items():
        if key.alg not in ("ES256", "EdDSA"):
            raise ConfigError(f"{where}: alg {key.alg!r} of key {kid}", "ES256 or EdDSA")
    for name, remote in settings.remotes.items():
        if remote.binding not in BINDINGS:
            raise ConfigError(f"{where}: binding {remote.binding!r} of remote {name}", " or ".join(BINDINGS))
        if urlsplit(remote.url).scheme not in ("http", "https") or not urlsplit(remote.url).hostname:
            raise ConfigError(f"{where}: url {remote.url!r} of remote {name}", "http:// or https://, and a host")
        if remote.signed and not settings.keys:
            raise ConfigError(
                f"{where}: remote {name} must be signed, and [keys] holds no key", "add its key, or signed = false"
            )
        if not name.isidentifier():
            raise ConfigError(f"{where}: remote {name!r}", "a name of letters, digits and _")


def _table(kind: type[T], data: object, where: str) -> T:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where} is no table", "write its settings below it")
    hints, known = get_type_hints(kind), {f.name: f for f in fields(kind)}  # type: ignore[arg-type]  # every kind is a dataclass
    if unknown := sorted(set(data) - set(known)):
        raise ConfigError(f"{where}: unknown setting {unknown[0]!r}", f"known: {', '.join(known)}")
    for name, each in known.items():
        if name not in data and each.default is MISSING and each.default_factory is MISSING:
            raise ConfigError(f"{where}: {name} is missing", f"write {name} = ...")
    return kind(**{name: _value(value, hints[name], f"{where}: {name}") for name, value in data.items()})


def _value(value: object, kind: Any, what: str) -> Any:
    if get_origin(kind) is tuple:
        if isinstance(value, list) and all(type(each) is str for each in value):
            return tuple(value)
        raise ConfigError(f"{what} is no list of texts", 'write ["a", "b"]')
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if float in kinds and type(value) is int:
        value = float(value)
    if type(value) not in kinds:
        raise ConfigError(f"{what} must be {kinds[0].__name__}, not {value!r}", "correct its type")
    if isinstance(value, int | float) and type(value) is not bool and not 0 <= value < 10**13:
        raise ConfigError(f"{what} must be a number of at least 0, not {value!r}", "write another number")
    return value
