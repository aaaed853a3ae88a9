"""What backends, breakers and tokenizers tell of themselves, read into metrics now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, Protocol, runtime_checkable

from .registry import Registry

EVERY_S: Final = 0.1
"""Between two looks at pools, while anything goes on."""


@runtime_checkable
class HasPool(Protocol):
    """A backend that keeps connections."""

    def pool_numbers(self) -> dict[str, float]:
        """Among others ``pool_conn_in_use``, ``pool_acquires``, ``pool_acquire_ms_sum``."""
        ...


class ModelMeter:
    """Reads one episode's share of what is counted for longer: what was there when it began is not its own.

    Between ``start`` and ``finish`` pools are looked at whenever ``poll`` is called, and every ``EVERY_S`` of the running
    loop's time. Waits for connections that fell between two looks count as their mean.
    """

    def __init__(self, registry: Registry, backends: Iterable[object], tokenizers: Any, breakers: Any = None) -> None:
        """``tokenizers`` counts as a TokenizerPool does, ``breakers`` as Breakers do."""
        self._registry, self._tokenizers, self._breakers = registry, tokenizers, breakers
        self._pools = [backend for backend in {id(b): b for b in backends}.values() if isinstance(backend, HasPool)]
        self._seen = [_waits(pool.pool_numbers()) for pool in self._pools]
        self._before = self._totals()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at pools from now on, if there are any; what they did until now is not counted."""
        self._seen = [_waits(pool.pool_numbers()) for pool in self._pools]
        if self._pools:
            self._tick()

    def poll(self) -> None:
        """Look at the pools."""
        in_use = 0.0
        for place, pool in enumerate(self._pools):
            numbers = pool.pool_numbers()
            in_use += numbers.get("pool_conn_in_use", 0.0)
            (count, total), now = self._seen[place], _waits(numbers)
            for _ in range(int(now[0] - count)):
                self._registry.histogram("pool_acquire_ms").observe((now[1] - total) / (now[0] - count))
            self._seen[place] = now
        if self._pools:
            gauge = self._registry.gauge("pool_conn_in_use")
            gauge.set(max(in_use, gauge.value or 0.0))

    def finish(self, stats: Any) -> None:
        """Look for the last time, and read the counters; ``stats`` are a CallStats of this episode alone."""
        if self._timer is not None:
            self._timer.cancel()
        self.poll()
        for name, total in self._totals().items():
            if total > self._before[name]:
                self._registry.counter(name).inc(total - self._before[name])
        for name, count in (("call_retries_total", stats.retries), ("usage_disbelieved_total", stats.disbelieved)):
            if count:
                self._registry.counter(name).inc(count)

    def _tick(self) -> None:
        self.poll()
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._tick)

    def _totals(self) -> dict[str, int]:
        tokenizers = self._tokenizers
        return {
            "breaker_open_total": 0 if self._breakers is None else self._breakers.opened,
            "tokenizer_loads_total": sum(stats.loads for stats in tokenizers.stats.values()),
            "tokenizer_evicted_total": tokenizers.evicted,
        }


def _waits(numbers: dict[str, float]) -> tuple[float, float]:
    """(how many requests got a connection so far, milliseconds that they waited for it together)."""
    return numbers.get("pool_acquires", 0.0), numbers.get("pool_acquire_ms_sum", 0.0)
