"""The filter of system calls, interpreted as the kernel does, on both kinds of processor."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apex_sandboxes.inside import seccomp

ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
MACHINES = ("x86_64", "aarch64")
WORD = st.integers(0, 2**32 - 1)


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None, **options: bool) -> int:
    """What the filter answers; the low words of the arguments are all that it looks at."""
    code = seccomp.program(machine, **{"sockets": True, "attributes": True, **options})
    fields = {0: number, 4: seccomp._ARCH[machine] if architecture is None else architecture}
    fields |= {16 + 8 * place: value & 0xFFFFFFFF for place, value in enumerate(arguments)}
    held, at = 0, 0
    for _ in range(len(code)):
        operation, true, false, constant = code[at]
        at += 1
        if operation == 0x06:
            return constant
        if operation == 0x20:
            held = fields.get(constant, 0)
        elif operation == 0x54:
            held &= constant
        else:
            answer = {0x15: held == constant, 0x35: held >= constant, 0x45: bool(held & constant)}[operation]
            at += true if answer else false
    raise AssertionError("it has no end")


@pytest.mark.parametrize("machine", MACHINES)
def test_every_denied_call_is_refused_and_is_not_where_it_is_allowed(machine: str) -> None:
    column = MACHINES.index(machine)
    for table, answer in ((seccomp._DENIED, errno.EPERM), (seccomp._ABSENT, errno.ENOSYS)):
        for name, row in table.items():
            if (number := row[column]) is not None:
                assert verdict(machine, number) == ERROR | answer, name
    for name, row in seccomp._ATTRIBUTES.items():
        if (number := row[column]) is not None:
            assert verdict(machine, number) == ALLOW, name
            assert verdict(machine, number, attributes=False) == ERROR | errno.EPERM, name


@pytest.mark.parametrize("machine", MACHINES)
def test_jumps_fit_into_a_byte_and_the_program_into_the_kernel(machine: str) -> None:
    code = seccomp.program(machine, sockets=True, attributes=False)
    assert len(code) <= 4096
    assert all(0 <= true < 256 and 0 <= false < 256 for _, true, false, _ in code)


@given(st.sampled_from(MACHINES), WORD, WORD)
def test_calls_of_another_processor_are_killed(machine: str, number: int, architecture: int) -> None:
    if architecture != seccomp._ARCH[machine]:
        assert verdict(machine, number, architecture=architecture) == KILL


@given(st.integers(0x40000000, 2**32 - 1))
def test_the_second_set_of_numbers_of_x86_is_not_there(number: int) -> None:
    assert verdict("x86_64", number) == ERROR | errno.ENOSYS


@given(st.sampled_from(MACHINES), WORD, WORD, st.booleans())
def test_only_streams_and_datagrams_of_the_internet_have_sockets(
    machine: str, family: int, kind: int, on: bool
) -> None:
    allowed = on and family in (2, 10) and kind & 0xF in (1, 2)
    number = seccomp._SOCKET[MACHINES.index(machine)]
    assert verdict(machine, number, family, kind, sockets=on) == (ALLOW if allowed else ERROR | errno.EPERM)


@given(st.sampled_from(MACHINES), WORD)
def test_no_clone_makes_a_namespace(machine: str, flags: int) -> None:
    number = seccomp._CLONE[MACHINES.index(machine)]
    allowed = not flags & 0x7E020000
    assert verdict(machine, number, flags) == (ALLOW if allowed else ERROR | errno.EPERM)


@given(st.sampled_from(MACHINES), WORD)
def test_limits_are_only_set_for_oneself(machine: str, process: int) -> None:
    for numbers in seccomp._OWN_ONLY.values():
        answer = verdict(machine, numbers[MACHINES.index(machine)], process)
        assert answer == (ALLOW if process == 0 else ERROR | errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_put_into_the_terminal(machine: str) -> None:
    number = seccomp._IOCTL[MACHINES.index(machine)]
    assert verdict(machine, number, 0, 0x5412) == ERROR | errno.EPERM
    assert verdict(machine, number, 0, 0xFFFFFFFF00005412) == ERROR | errno.EPERM
    assert verdict(machine, number, 0, 0x5401) == ALLOW
