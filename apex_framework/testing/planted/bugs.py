"""The planted bugs. Each breaks one thing that the shipped source does right; the simulation has to notice."""

from __future__ import annotations

from . import PlantedBug

ROUTER = "apex_framework.runtime.router"
DISPATCH = "apex_framework.runtime.dispatch"
STATE = "apex_framework.runtime.state"
GATE = "apex_framework.runtime.gate"
MAILBOX = "apex_framework.runtime.mailbox"
PAIRS = "apex_framework.runtime.pairs"
PRESSURE = "apex_framework.runtime.pressure"
DEDUP = "apex_framework.runtime.dedup"
ROUTES = "apex_framework.runtime.routes"
SWITCH = "apex_framework.runtime.switch"
COORDINATOR = "apex_framework.runtime.coordinator"
PINNING = "apex_framework.runtime.pinning"
JOURNAL = "apex_framework.runtime.journal"
RECOVERY = "apex_framework.runtime.recovery"
LEDGER = "apex_framework.budget.ledger"
BOOKS = "apex_framework.budget.books"
ACCOUNT = "apex_framework.budget.account"
GUARD = "apex_framework.budget.guard"
FIFO = "apex_lanes.fifo"
DRR = "apex_lanes.drr_wred"

BUGS = (
    # --- router: leases, retries, ends
    PlantedBug(
        "unflagged_retry",
        ROUTER,
        "envelope.attempt += 1\n        envelope.redelivered = True\n",
        "envelope.attempt += 1\n",
        "a message that comes again is not flagged as redelivered",
    ),
    PlantedBug(
        "one_attempt_too_many",
        ROUTER,
        "if envelope.attempt >= self._max_attempts:",
        "if envelope.attempt > self._max_attempts:",
        "a message is delivered six times, not five",
    ),
    PlantedBug(
        "constant_backoff",
        ROUTER,
        "delay = BACKOFF_S * 2 ** (envelope.attempt - 1)",
        "delay = BACKOFF_S",
        "the second retry comes as soon as the first",
    ),
    PlantedBug(
        "no_time_to_live",
        ROUTER,
        "if envelope is None or life <= envelope.mark:",
        "if envelope is None or True:",
        "an expired message is delivered",
    ),
    PlantedBug(
        "late_ack_counts",
        ROUTER,
        "            self._record.late += 1\n            return False\n        now, envelope",
        "            self._record.late += 1\n            return True\n        now, envelope",
        "an ack after the lease has ended is taken for good",
    ),
    PlantedBug(
        "impatient_lease",
        ROUTER,
        ".deadline <= now:",
        ".deadline <= now + 0.1:",
        "a lease ends a tenth of a second early",
    ),
    PlantedBug(
        "swallowed_wake_up",
        ROUTER,
        "                if waiter.done() and not waiter.cancelled():\n                    box.wake()\n",
        "",
        "a consumer that is cancelled just when it was woken takes the wake-up with it",
    ),
    PlantedBug(
        "relay_keeps_it",
        ROUTER,
        "        if envelope.hop.rest:\n",
        "        if envelope.hop.rest and not envelope.hop.relay:\n",
        "a relay does not pass the message on",
    ),
    PlantedBug(
        "forgotten_at_the_end",
        ROUTER,
        "for lease in box.leases.values()] + box.pending()",
        "for lease in box.leases.values()]",
        "what waits when the episode closes has no end",
    ),
    PlantedBug(
        "backoff_of_the_old_epoch",
        ROUTER,
        "                envelope.topo_epoch = self._epoch\n                record.migrated += 1\n",
        "                record.migrated += 1\n",
        "a message given back after a switch waits in an epoch that is over",
    ),
    # --- dispatch, state, mailboxes
    PlantedBug(
        "miscounted_fan_out",
        DISPATCH,
        "tally.admitted += len(hops) - 1",
        "tally.admitted += len(hops)",
        "admitted hops are counted once too often",
    ),
    PlantedBug(
        "unbounded_fan_out",
        DISPATCH,
        "for i in range(plan.cut))",
        "for i in range(n))",
        "flat sends to everybody at once",
    ),
    PlantedBug(
        "no_size_guard",
        DISPATCH,
        "            raise PayloadTooLargeError(size, MAX_PAYLOAD_BYTES)\n        now = self._now()\n"
        "        expires = message.expires_ts\n",
        "            pass\n        now = self._now()\n        expires = message.expires_ts\n",
        "a message above 512 KB is admitted",
    ),
    PlantedBug(
        "stack_at_the_gate",
        DISPATCH,
        "self._next.append(Held(",
        "self._next.insert(0, Held(",
        "what waits at the gate leaves it in reverse order",
    ),
    PlantedBug(
        "restarted_clock",
        MAILBOX,
        "        if not self.leases:\n            self.stopped += now - self.held_since\n",
        "",
        "the time to live goes on while the receiver has its hands full",
    ),
    PlantedBug(
        "backoff_left_behind",
        MAILBOX,
        "return [*(envelope for _, _, envelope in sorted(self.retries)), *waiting]",
        "return [*waiting]",
        "a switch forgets what is in backoff",
    ),
    PlantedBug(
        "bytes_one_over",
        STATE,
        "if box.bytes + size > caps.lane_cap:",
        "if box.bytes > caps.lane_cap:",
        "the byte cap of a lane is exceeded by one message",
    ),
    PlantedBug(
        "bytes_never_leave",
        STATE,
        "            caps.total -= envelope.size\n            box.bytes -= envelope.size\n",
        "            pass\n",
        "bytes of ended hops count for ever",
    ),
    PlantedBug(
        "amnesia",
        DEDUP,
        "return last is not None and last > now - self._ttl_s",
        "return False",
        "a duplicate is not flagged",
    ),
    PlantedBug(
        "all_the_same",
        DEDUP,
        "self._seen, hash((episode_id, msg_id))",
        "self._seen, hash(episode_id)",
        "every message after the first is flagged as redelivered",
    ),
    PlantedBug(
        "impatient_pair",
        PAIRS,
        "        if self._busy[holder]:\n",
        "        if self._busy[holder] > 1:\n",
        "strict order: the next message of a pair overtakes one in backoff",
    ),
    PlantedBug(
        "pair_rests_for_ever",
        PAIRS,
        "        self._ready.append(holder)\n",
        "",
        "strict order: a pair that rested is never served again",
    ),
    PlantedBug(
        "short_way",
        ROUTES,
        "tuple(t for t in behind[hop] if t != hop)",
        "()",
        "members behind a relay are not served",
    ),
    # --- gate
    PlantedBug(
        "reversed_release",
        GATE,
        "waiting, router._next = router._next, []",
        "waiting, router._next = router._next[::-1], []",
        "what waited for the decision goes on in the wrong order",
    ),
    PlantedBug(
        "forgotten_release",
        GATE,
        "waiting, router._next = router._next, []",
        "waiting, router._next = router._next[1:], []",
        "the first message that waited at the gate is lost",
    ),
    PlantedBug(
        "never_waits",
        GATE,
        "        return all(box.idle() or (migrate and bool(box.leases)) for box in self._router._boxes.values())\n",
        "        return True\n",
        "a switch that drains commits while messages of the old epoch wait",
    ),
    PlantedBug(
        "old_epoch_kept",
        GATE,
        "                envelope.topo_epoch = router._epoch\n",
        "",
        "migrated messages keep their old epoch, and new ones are served before them",
    ),
    PlantedBug(
        "edges_ignored",
        GATE,
        "return holder not in router._boxes or router._table.allows(holder, envelope.recipient)",
        "return True",
        "a migrated message goes along an edge that the new topology lacks",
    ),
    PlantedBug(
        "stale_plans",
        GATE,
        "router._table, router._plans = table, table.plans",
        "router._table = table",
        "new messages go by the routes of the old topology",
    ),
    PlantedBug(
        "unsorted_migration",
        GATE,
        'carried.sort(key=attrgetter("order"))',
        'carried.sort(key=attrgetter("order"), reverse=True)',
        "migrated messages change their order",
    ),
    # --- switch engine
    PlantedBug(
        "commit_without_record",
        SWITCH,
        "            self._decide(record)\n",
        "",
        "the epoch changes without a COMMIT record",
    ),
    PlantedBug(
        "commit_in_spite_of_the_disk",
        SWITCH,
        "            raise _Aborted(AbortReason.JOURNAL, str(error)) from error\n\n    def _undo(",
        "            return\n\n    def _undo(",
        "the switch goes on when its COMMIT record could not be written",
    ),
    PlantedBug(
        "two_switches",
        SWITCH,
        '        if self._switching:\n            raise RuntimeError("a switch is in flight")\n',
        "",
        "two switches are in flight",
    ),
    PlantedBug(
        "gate_left_shut",
        SWITCH,
        "        if self._gate.is_shut:\n            self._gate.abort()\n",
        "",
        "after an abort the gate stays shut",
    ),
    PlantedBug(
        "abort_called_success",
        SWITCH,
        "return SwitchResult(False, self.router.epoch, stats, record.origin",
        "return SwitchResult(True, self.router.epoch, stats, record.origin",
        "an aborted switch reports success",
    ),
    # --- coordinator, pin
    PlantedBug(
        "no_cooldown",
        COORDINATOR,
        "if self._since_attempt < self._cooldown:",
        "if self._since_attempt < 0:",
        "a switch follows an attempt at once",
    ),
    PlantedBug(
        "no_dwell",
        COORDINATOR,
        "if self._since_switch < self._dwell:",
        "if self._since_switch < 0:",
        "a topology is left before its dwell",
    ),
    PlantedBug(
        "pin_ignored",
        COORDINATOR,
        '        if self._pin is not None and self._pin.pinned:\n            return "pinned"\n',
        "",
        "wishes are carried out while health is pinned",
    ),
    PlantedBug(
        "pin_without_switch",
        COORDINATOR,
        "            return await self._switch(self._pin.topology)\n",
        "            return None\n",
        "pinned, and another topology stays in force",
    ),
    PlantedBug(
        "blind_pin",
        PINNING,
        "(p95 := self._p95()) > self._latency_limit_ms:",
        "(p95 := self._p95()) > 10 * self._latency_limit_ms:",
        "a slow controller does not pin",
    ),
    PlantedBug(
        "pinned_for_ever",
        PINNING,
        "if self._healthy >= self._healthy_windows:",
        "if self._healthy < 0:",
        "health that has come back does not unpin",
    ),
    # --- journal
    PlantedBug(
        "commit_not_synced",
        JOURNAL,
        "        self._journal.append(COMMIT, record.epoch, _form(record))\n        self._journal.sync()\n",
        "        self._journal.append(COMMIT, record.epoch, _form(record))\n",
        "a COMMIT is acknowledged before it is on disk",
    ),
    PlantedBug(
        "failed_sync_ignored",
        JOURNAL,
        "                if failure is not None:\n                    self._fail(failure)\n",
        "",
        "a failed fsync counts as done",
    ),
    PlantedBug(
        "intent_taken_for_commit",
        JOURNAL,
        "        if record.kind == COMMIT:\n",
        "        if record.kind in (INTENT, COMMIT):\n",
        "recovery rolls a switch forward that never committed",
    ),
    PlantedBug(
        "oldest_commit",
        JOURNAL,
        "for record in reversed(records):",
        "for record in records:",
        "recovery goes back to the first switch",
    ),
    PlantedBug(
        "checksum_ignored",
        RECOVERY,
        "    if zlib.crc32(body) != _CRC.unpack_from(data, end - _CRC.size)[0]:\n        return None\n",
        "",
        "a torn record is taken for a whole one",
    ),
    # --- budget
    PlantedBug(
        "settled_twice",
        LEDGER,
        "            if (done := self._settled.get(reservation_id)) is not None:\n                return done\n",
        "",
        "a second settlement is not the first one's answer",
    ),
    PlantedBug(
        "late_settlement_adds",
        BOOKS,
        "self._spend(reservation, tokens - reservation.tokens, ms - reservation.ms)",
        "self._spend(reservation, tokens, ms)",
        "a late settlement counts on top of the debit",
    ),
    PlantedBug(
        "expiry_forgives",
        BOOKS,
        "                self._spend(reservation, reservation.tokens, reservation.ms)\n",
        "",
        "an expired reservation costs nothing",
    ),
    PlantedBug(
        "reserved_not_counted",
        ACCOUNT,
        "self.used + self.reserved + tokens > limit",
        "self.used + tokens > limit",
        "calls in flight do not count against the limit",
    ),
    PlantedBug(
        "output_not_reserved",
        GUARD,
        "self._padded(estimate_tokens, margin) + max_tokens",
        "self._padded(estimate_tokens, margin)",
        "the allowance of output is not reserved",
    ),
    # --- lanes
    PlantedBug(
        "fifo_is_a_stack",
        FIFO,
        "self._waiting.popleft() if",
        "self._waiting.pop() if",
        "last in, first out",
    ),
    PlantedBug(
        "drr_takes_the_newest",
        DRR,
        "return queue.messages.popleft()",
        "return queue.messages.pop()",
        "within a class the newest message goes first",
        lane="drr_wred",
    ),
    PlantedBug(
        "drr_loses_what_is_restored",
        DRR,
        "        self._waiting += 1\n        queue.messages.append(message)\n",
        "        queue.messages.append(message)\n",
        "the lane does not count what comes back or was forwarded",
        lane="drr_wred",
    ),
    PlantedBug(
        "wred_from_the_start",
        DRR,
        "        if waiting > queue.free:\n            if waiting >= self._capacity:\n                return _FULL\n",
        "        if waiting > queue.free or waiting > 1:\n            if waiting > 1:\n                return _FULL\n",
        "a lane refuses as full when it is not",
        lane="drr_wred",
    ),
)
"""In the order of the house: router, gate, switch, health, journal, budget, lanes."""
