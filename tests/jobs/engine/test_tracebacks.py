"""The text of a traceback: Python's own, made once for equal failures."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from unittest.mock import patch

import pytest

from jobs.engine import tracebacks
from jobs.engine.tracebacks import format_error

pytestmark = pytest.mark.req("J-13")


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def plain() -> None:
    raise ValueError("plain")


def of_several_lines() -> None:
    raise ValueError(
        "first line\nsecond line",
    )


def caused() -> None:
    try:
        plain()
    except ValueError as error:
        raise RuntimeError("caused") from error


def while_handling() -> None:
    try:
        caused()
    except RuntimeError:
        int("twelve")


def suppressed() -> None:
    try:
        plain()
    except ValueError:
        raise RuntimeError("suppressed") from None


def with_notes() -> None:
    error = ValueError("with notes")
    error.add_note("a note\nof two lines")
    raise error


def group() -> None:
    raise ExceptionGroup("group", [ValueError("member"), KeyError("another")])


def caused_by_a_group() -> None:
    try:
        group()
    except ExceptionGroup as error:
        raise RuntimeError("caused by a group") from error


def misspelled_name() -> None:
    lenght = 1
    assert lenght == length  # type: ignore[name-defined]  # noqa: F821


def misspelled_attribute() -> None:
    "text".uper()  # type: ignore[attr-defined]


class Account:
    balance = 0

    def misspelled(self) -> None:
        self.balence  # type: ignore[attr-defined]  # noqa: B018


def misspelled_attribute_of_self() -> None:
    Account().misspelled()


def missing_module() -> None:
    import no_such_module  # type: ignore[import-not-found]  # noqa: F401


def not_python() -> None:
    compile("1 +", "<payload>", "exec")


def endless(depth: int = 0) -> None:
    endless(depth + 1)


def unreadable() -> None:
    raise Unreadable


def circular() -> None:
    error = ValueError("circular")
    error.__cause__ = RuntimeError("its cause")
    error.__cause__.__context__ = error
    raise error


def raised_by(function: Callable[[], None]) -> BaseException:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize(
    "function",
    [
        plain,
        of_several_lines,
        caused,
        while_handling,
        suppressed,
        with_notes,
        group,
        caused_by_a_group,
        misspelled_name,
        misspelled_attribute,
        misspelled_attribute_of_self,
        missing_module,
        not_python,
        endless,
        unreadable,
        circular,
    ],
)
def test_the_text_is_the_one_that_python_prints(function: Callable[[], None]) -> None:
    for _ in ("formatted", "kept"):
        error = raised_by(function)
        assert format_error(error) == "".join(traceback.format_exception(error))


def test_of_a_chain_of_errors_each_has_its_frames_kept() -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise ValueError(number)
        try:
            fail(number - 1)
        except ValueError as error:
            raise ValueError(number) from error

    first, again = [raised_by(lambda: fail(tracebacks.MOST_ERRORS)) for _ in range(2)]
    expected = "".join(traceback.format_exception(again))
    format_error(first)
    formatted_again = AssertionError("formatted again")
    with (
        patch.object(traceback, "format_tb", side_effect=formatted_again),
        patch.object(traceback, "format_exception", side_effect=formatted_again),
    ):
        assert format_error(again) == expected


def test_an_error_that_was_never_raised_has_no_frames() -> None:
    assert format_error(ValueError("never raised")) == "ValueError: never raised\n"


def test_the_frames_of_equal_failures_are_formatted_once_and_their_messages_each() -> None:
    def fail(with_what: str) -> BaseException:
        return raised_by(lambda: int(with_what) and None)

    with patch.object(traceback, "format_tb", wraps=traceback.format_tb) as format_tb:
        texts = [format_error(fail(word)) for word in ("one", "two", "three")]

    assert format_tb.call_count == 1
    assert [text.rpartition(": ")[2] for text in texts] == ["'one'\n", "'two'\n", "'three'\n"]
    assert len({text.rpartition("ValueError")[0] for text in texts}) == 1


def test_what_is_kept_is_bounded() -> None:
    for number in range(2 * tracebacks.MOST_KEPT):
        code = compile("1 / 0", f"<generated {number}>", "exec")
        text = format_error(raised_by(lambda: exec(code)))  # noqa: B023 - called at once
        assert f"<generated {number}>" in text
        assert len(tracebacks._kept) <= tracebacks.MOST_KEPT
