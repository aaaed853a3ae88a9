"""Ceilings that processes share: a small SQLite file of what was leased and spent.

Every change is one transaction that holds the file's write lock from its first read on, and adds to what is there; nothing
is ever written back from memory, so no update is lost. A lease counts as spent from the moment it is
made: a process that dies owes nobody anything, and one that was believed dead may go on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from apex_framework.errors import BudgetStoreError

VERSION: Final = 1
APPLICATION: Final = 0x41504558
"""``APEX``, in the file's header."""
LOCK_PATIENCE_S: Final = 5.0
_SHARE_AT_ONCE: Final = 4
"""A tranche takes at most one part in so many of what is free, beyond what its call needs: others want some, too."""

_TABLES: Final = (
    "CREATE TABLE ceilings (scope TEXT, key TEXT, spent INTEGER NOT NULL CHECK (spent >= 0), PRIMARY KEY (scope, key))",
    "CREATE TABLE leases (holder TEXT PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL,"
    " tokens INTEGER NOT NULL CHECK (tokens >= 0), expires REAL NOT NULL)",
    "CREATE INDEX leases_of ON leases (scope, key)",
    "CREATE TABLE windows (scope TEXT, series TEXT, newest TEXT NOT NULL, PRIMARY KEY (scope, series))",
)


_SPENT: Final = "SELECT COALESCE(SUM(spent), 0) FROM ceilings WHERE scope=? AND key=?"
_LEASED: Final = "SELECT COALESCE(SUM(tokens), 0) FROM leases WHERE scope=? AND key=?"

_LOCKED: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR}


class SharedStore:
    """One file of shared ceilings. Holds no connection between calls, so threads and forked processes may use it.

    All methods block, for as long as another process holds the lock, at most ``patience_s``; they raise
    BudgetStoreError when the file is locked, damaged, of another version or cannot be written.
    """

    def __init__(self, path: Path, *, patience_s: float = LOCK_PATIENCE_S) -> None:
        self.path = path
        self._patience_s = patience_s

    def check(self) -> None:
        """Make the file where there is none; raise what would make a lease fail."""
        with self._transaction() as store:
            if store.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("quick_check failed")
            _count(store, _SPENT, "", "")
            _count(store, f"{_LEASED} AND holder='' AND expires > 0", "", "")
            store.execute("SELECT scope, series, newest FROM windows LIMIT 1")

    def lease(
        self, scope: str, key: str, holder: str, *, need: int, tranche: int, ceiling: int, now: float, ttl_s: float
    ) -> tuple[int, int]:
        """Give a holder ``need`` tokens more, and up to ``tranche`` where much is free; none when ``need`` is not free.

        Returns what the holder has leased in all, and what is free afterwards. ``now`` is wall time in seconds.
        """
        with self._transaction() as store:
            spent = _count(store, _SPENT, scope, key)
            leased = _count(store, _LEASED, scope, key)
            mine = _count(store, "SELECT COALESCE(SUM(tokens), 0) FROM leases WHERE holder=?", holder)
            free = max(0, ceiling - spent - leased)
            if need > free:
                return mine, free
            more = max(need, min(tranche, free // _SHARE_AT_ONCE))
            store.execute(
                "INSERT INTO leases VALUES (?, ?, ?, ?, ?) ON CONFLICT (holder) DO"
                " UPDATE SET tokens = tokens + excluded.tokens, expires = MAX(expires, excluded.expires)",
                (holder, scope, key, more, now + ttl_s),
            )
            return mine + more, free - more

    def free(self, scope: str, key: str, ceiling: int) -> int:
        """Tokens of ``ceiling`` that nobody has leased or spent."""
        with self._transaction() as store:
            return max(0, ceiling - _count(store, _SPENT, scope, key) - _count(store, _LEASED, scope, key))

    def settle(self, scope: str, key: str, holder: str, used: int) -> bool:
        """End a lease: ``used`` of it was spent, the rest is free again. False when there is no such lease (any more)."""
        with self._transaction() as store:
            if store.execute("DELETE FROM leases WHERE holder=?", (holder,)).rowcount == 0:
                return False
            store.execute(
                "INSERT INTO ceilings VALUES (?, ?, ?) ON CONFLICT (scope, key) DO"
                " UPDATE SET spent = spent + excluded.spent",
                (scope, key, used),
            )
            return True

    def newest(self, scope: str, series: str, window: str) -> str:
        """The latest window of a series that anybody ever named, ``window`` included; windows sort as texts."""
        with self._transaction() as store:
            select = "SELECT newest FROM windows WHERE scope=? AND series=?"
            row = store.execute(select, (scope, series)).fetchone()
            if row is not None and str(row[0]) >= window:
                return str(row[0])
            store.execute(
                "INSERT INTO windows VALUES (?, ?, ?) ON CONFLICT (scope, series) DO"
                " UPDATE SET newest = excluded.newest",
                (scope, series, window),
            )
            return window

    def balance(self, scope: str, key: str, now: float) -> tuple[int, int, int]:
        """Tokens settled, tokens leased to holders that gave a sign of life in time, and tokens of those that did not."""
        with self._transaction() as store:
            alive = _count(store, f"{_LEASED} AND expires > ?", scope, key, now)
            return _count(store, _SPENT, scope, key), alive, _count(store, _LEASED, scope, key) - alive

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=self._patience_s, isolation_level=None)) as store:
                store.execute("PRAGMA synchronous = FULL")  # a lease must not be forgotten when the power fails
                self._want_wal(store)
                store.execute("BEGIN IMMEDIATE")
                try:
                    self._tables(store)
                    yield store
                except BaseException:
                    store.rollback()
                    raise
                store.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise self._refused(error) from error

    @staticmethod
    def _want_wal(store: sqlite3.Connection) -> None:
        """Readers and a writer side by side. Only a convenience: whoever finds the file busy goes on without."""
        try:
            store.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _code(error) not in _LOCKED:
                raise

    def _tables(self, store: sqlite3.Connection) -> None:
        version = store.execute("PRAGMA user_version").fetchone()[0]
        mark = store.execute("PRAGMA application_id").fetchone()[0]
        if (version, mark) == (VERSION, APPLICATION):
            return
        if version or mark or store.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            what = f"has version {version}, not {VERSION}" if mark == APPLICATION else "is no budget store"
            raise BudgetStoreError(f"{self.path} {what}", "choose another file", reason="store_version")
        for table in _TABLES:
            store.execute(table)
        store.execute(f"PRAGMA application_id = {APPLICATION}")
        store.execute(f"PRAGMA user_version = {VERSION}")

    def _refused(self, error: Exception) -> BudgetStoreError:
        code = _code(error)
        if code in _LOCKED:
            return BudgetStoreError(
                f"the budget store {self.path} is locked for more than {self._patience_s:g} s",
                "end the process that holds it",
                reason="store_locked",
            )
        if code in _DAMAGED:
            return BudgetStoreError(
                f"the budget store {self.path} is damaged: {error}",
                "restore it from a backup; removing it forgets everything that was spent",
                reason="store_damaged",
            )
        return BudgetStoreError(
            f"the budget store {self.path} cannot be written: {error}",
            "choose another file, or make this one writable",
            reason="store_unwritable",
        )


def _count(store: sqlite3.Connection, query: str, *values: object) -> int:
    number = store.execute(query, values).fetchone()[0]
    if type(number) is not int or number < 0:
        raise sqlite3.IntegrityError(f"{number!r} is no number of tokens")
    return number


def _code(error: Exception) -> int | None:
    """SQLite's primary result code; what Python itself refuses to read is damage."""
    if isinstance(error, OSError):
        return None
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
