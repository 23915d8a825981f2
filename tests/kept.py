"""A set-up that several tests in a row use, which ends before the run does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """A context that is entered when it is first asked for. One that fails is not tried again.

    Args:
        make: the context.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[T]]) -> None:
        self._make = make
        self._stack = ExitStack()
        self._made: list[T] = []
        self._failure: BaseException | None = None

    def get(self) -> T:
        """What the context gives; what it failed with is raised for everybody who asks."""
        if self._failure is not None:
            raise self._failure
        if not self._made:
            try:
                self._made.append(self._stack.enter_context(self._make()))
            except BaseException as error:
                self._failure = error
                raise
        return self._made[0]

    def close(self) -> None:
        """Leave the context, where it was entered; once."""
        self._stack.close()
