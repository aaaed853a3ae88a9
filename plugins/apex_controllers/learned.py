"""The learned state of a ridge bandit: fitted to a topology set, saved, loaded, shipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apex_framework.errors import ConfigError
from apex_framework.interfaces import Checkpoint

from .ridge import RidgeActions

FORMAT = 1
POLICIES = Path(__file__).parent / "policies"
"""Shipped policies: ``NAME-TOPOLOGIES.npz`` with a ``.json`` beside it, topologies joined by ``-`` in any order."""

Names = Callable[[tuple[str, ...]], Sequence[str]]


class LearnedRidge:
    """Ridge actions for the topology set that the episode brings, and where they came from.

    A policy that was given or loaded must fit the set; otherwise the state is made anew for another set, from the
    shipped policy if there is one and none was declined.
    """

    def __init__(self, kind: str, actions: Names, features: Names, lam: float, policy: str | Path | None) -> None:
        self._kind, self._name_actions, self._name_features, self._lam = kind, actions, features, lam
        self._policy = policy
        self._topologies: tuple[str, ...] = ()
        self._pinned = False
        self.decisions = 0
        self.actions: tuple[str, ...] = ()
        self.ridge = RidgeActions(0, 1, lam)
        if policy not in (None, "", "none"):
            self.load(_read(Path(str(policy))))

    @property
    def topologies(self) -> tuple[str, ...]:
        """The set that the state is for; empty before the first."""
        return self._topologies

    def fit_to(self, topologies: tuple[str, ...]) -> None:
        """Make the state fit a topology set, in its order. Raises ConfigError when a given policy is for another set."""
        if topologies == self._topologies:
            return
        if self.decisions and sorted(topologies) == sorted(self._topologies):
            self._reorder(topologies)
            return
        if self._pinned and self.decisions:
            raise ConfigError(
                f"{self._kind}: its policy is for {','.join(self._topologies)}, the arm has {','.join(topologies)}",
                "train one for this topology set, or use policy=none",
            )
        self._reset(topologies)
        if self._policy in (None, "") and (shipped := self._shipped(topologies)) is not None:
            self.load(shipped)
            self._pinned = False
            self._reorder(topologies)

    def update(self, action: int, features: Sequence[float], target: float) -> None:
        """Learn one row."""
        self.ridge.update(action, features, target)
        self.decisions += 1

    def save(self, settings: Mapping[str, Any]) -> Checkpoint:
        """A copy of the state."""
        return Checkpoint(
            arrays={
                "weights": [list(w) for w in self.ridge.weights],
                "sums": [list(s) for s in self.ridge.sums],
                "inverses": [list(inverse) for inverse in self.ridge.inverses],
            },
            meta={
                "format": FORMAT,
                "controller": self._kind,
                "topologies": list(self._topologies),
                "actions": list(self.actions),
                "features": list(self._name_features(self._topologies)),
                "lam": self.ridge.lam,
                "decisions": self.decisions,
                **settings,
            },
        )

    def load(self, checkpoint: Checkpoint) -> None:
        """Take over a saved state. Raises ValueError when it does not fit."""
        meta = checkpoint.meta
        if meta.get("controller") != self._kind or meta.get("format") != FORMAT:
            raise ValueError(f"not a {self._kind} policy of format {FORMAT}: {meta.get('controller')!r}")
        topologies = tuple(str(t) for t in meta.get("topologies", ()))
        actions, features = tuple(self._name_actions(topologies)), tuple(self._name_features(topologies))
        if not topologies or tuple(meta.get("actions", ())) != actions or tuple(meta.get("features", ())) != features:
            raise ValueError(f"a {self._kind} policy with other actions or features")
        ridge = RidgeActions(len(actions), len(features), float(meta["lam"]))
        ridge.weights = _floats(checkpoint.arrays, "weights", (len(actions), len(features)))
        ridge.sums = _floats(checkpoint.arrays, "sums", (len(actions), len(features)))
        ridge.inverses = _floats(checkpoint.arrays, "inverses", (len(actions), len(features) ** 2))
        self.ridge, self.actions, self._topologies = ridge, actions, topologies
        self.decisions, self._pinned = int(meta["decisions"]), True

    def _shipped(self, topologies: tuple[str, ...]) -> Checkpoint | None:
        """The shipped policy for this set, whatever the order in its file's name."""
        wanted = sorted("-".join((self._kind, *topologies)).split("-"))
        for path in sorted(POLICIES.glob(f"{self._kind}-*.npz")):
            if sorted(path.stem.split("-")) == wanted:
                found = _read(path)
                if sorted(found.meta.get("topologies", ())) == sorted(topologies):
                    return found
        return None

    def _reorder(self, topologies: tuple[str, ...]) -> None:
        """The same state with actions and features, found by their names, in the order of ``topologies``."""
        old_features = list(self._name_features(self._topologies))
        actions, features = tuple(self._name_actions(topologies)), tuple(self._name_features(topologies))
        rows = [self.actions.index(action) for action in actions]
        columns = [old_features.index(feature) for feature in features]
        old, d = self.ridge, len(features)
        ridge = RidgeActions(len(actions), d, old.lam)
        ridge.weights = [[old.weights[a][i] for i in columns] for a in rows]
        ridge.sums = [[old.sums[a][i] for i in columns] for a in rows]
        ridge.inverses = [[old.inverses[a][i * d + j] for i in columns for j in columns] for a in rows]
        self.ridge, self.actions, self._topologies = ridge, actions, topologies

    def _reset(self, topologies: tuple[str, ...]) -> None:
        self._topologies, self.decisions, self._pinned = topologies, 0, False
        self.actions = tuple(self._name_actions(topologies))
        self.ridge = RidgeActions(len(self.actions), len(self._name_features(topologies)), self._lam)


def _read(path: Path) -> Checkpoint:
    from apex_framework.analysis import read_checkpoint

    return read_checkpoint(path)


def _floats(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Any:
    import numpy

    if name not in arrays:
        raise ValueError(f"a policy without {name!r}")
    array = numpy.asarray(arrays[name], dtype=numpy.float64)
    if array.shape != shape or not numpy.isfinite(array).all():
        raise ValueError(f"a policy whose {name!r} has shape {array.shape}, not {shape}, or is not finite")
    return array.tolist()
