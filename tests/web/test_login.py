"""Guessing the password: each wrong guess in a row waits longer, and the right one is never kept waiting."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.web.login import PasswordChecker

RIGHT, WRONG = b"correct horse", b"battery staple"


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait, which take none here."""
    seconds: list[float] = []

    async def sleep(delay_s: float) -> None:
        seconds.append(delay_s)

    monkeypatch.setattr("app.web.login.asyncio.sleep", sleep)
    return seconds


def guess(passwords: PasswordChecker, *guesses: bytes) -> list[bool]:
    async def all_of_them() -> list[bool]:
        return [await passwords.match(guess) for guess in guesses]

    return asyncio.run(all_of_them())


def test_each_wrong_guess_in_a_row_waits_twice_as_long_up_to_three_seconds(waited: list[float]) -> None:
    assert guess(PasswordChecker(RIGHT.decode()), *[WRONG] * 14) == [False] * 14
    assert waited == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]


def test_many_more_wrong_guesses_neither_overflow_nor_wait_longer(waited: list[float]) -> None:
    guess(PasswordChecker(RIGHT.decode()), *[WRONG] * 2000)
    assert set(waited[6:]) == {3.0}


def test_the_right_password_waits_for_nothing_and_begins_the_count_anew(waited: list[float]) -> None:
    passwords = PasswordChecker(RIGHT.decode())
    assert guess(passwords, WRONG, WRONG, WRONG, RIGHT, WRONG, RIGHT, RIGHT, WRONG) == [
        False, False, False, True, False, True, True, False,
    ]  # fmt: skip
    assert waited == [0.05, 0.1, 0.2, 0.05, 0.05]


def test_the_count_is_of_one_process_and_not_of_one_guesser(waited: list[float]) -> None:
    """Sessions and tokens are guessed in the same row; another process has its own."""
    passwords = PasswordChecker(RIGHT.decode())
    guess(passwords, WRONG)
    guess(passwords, b"another")
    guess(PasswordChecker(RIGHT.decode()), WRONG)
    assert waited == [0.05, 0.1, 0.05]


def test_guesses_at_the_same_time_wait_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a thousand of them would take as long as one; the right password passes them all."""
    real_sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    waiting, at_once, order = 0, [], []

    async def sleep(delay_s: float) -> None:
        nonlocal waiting
        waiting += 1
        at_once.append(waiting)
        order.append(delay_s)
        for _ in range(5):
            await real_sleep(0)
        waiting -= 1

    async def many() -> list[bool]:
        passwords = PasswordChecker(RIGHT.decode())
        wrong = [asyncio.ensure_future(passwords.match(WRONG)) for _ in range(4)]
        for _ in range(3):
            await real_sleep(0)
        right = await passwords.match(RIGHT)
        assert not any(guess.done() for guess in wrong)
        return [right, *await asyncio.gather(*wrong)]

    monkeypatch.setattr("app.web.login.asyncio.sleep", sleep)
    assert asyncio.run(many()) == [True, False, False, False, False]
    assert at_once == [1, 1, 1, 1]
    assert order[0] == 0.05
