"""What comes later, in the standard library's terms: a future that is waited for, called back for, or awaited.

It costs no thread: whoever reads what is waited for resolves it, in its own thread and under no lock. So a callback
runs there and must not wait; what it raises is logged and stops nobody.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar

_log = logging.getLogger("metajournal.futures")
T = TypeVar("T")
_U = TypeVar("_U")


class AwaitableFuture(Future[T], Generic[T]):
    """A `concurrent.futures.Future` that can be awaited, in any event loop of asyncio; to cancel it ends the wait.

    A callback of it ends no thread: a `SystemExit` is logged too, and the others are called.
    """

    def __await__(self) -> Generator[Any, None, T]:
        from asyncio import wrap_future  # most programs never come here, and it takes 30 ms to load

        return wrap_future(self).__await__()

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        super().add_done_callback(partial(called_back, fn))


def resolve(future: Future[T], value: T) -> None:
    """Give a future its value, unless it was cancelled."""
    if not future.done():
        with suppress(InvalidStateError):
            future.set_result(value)


def fail(future: Future[Any], error: BaseException) -> None:
    """Give a future its error, unless it was cancelled."""
    if not future.done():
        with suppress(InvalidStateError):
            future.set_exception(error)


def follow_on(future: AwaitableFuture[T], first: Future[_U], value_of: Callable[[_U], T]) -> None:
    """Resolve a future with what another one's value gives; to cancel it cancels the other one too."""

    def take(done: Future[_U]) -> None:
        try:
            resolve(future, value_of(done.result()))
        except BaseException as error:
            fail(future, error)

    first.add_done_callback(take)
    future.add_done_callback(lambda _: first.cancel())


def all_of(futures: Sequence[Future[T]]) -> AwaitableFuture[list[T]]:
    """The values of several, in their order; the error of one as soon as it has one, and the others are cancelled."""
    together: AwaitableFuture[list[T]] = AwaitableFuture()
    left, lock = len(futures), Lock()

    def take(done: Future[T]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = not left
        if done.cancelled():
            together.cancel()
        elif (error := done.exception()) is not None:
            fail(together, error)
        elif is_last:
            resolve(together, [future.result() for future in futures])

    if not futures:
        together.set_result([])
    for future in futures:
        future.add_done_callback(take)
    together.add_done_callback(lambda _: [future.cancel() for future in futures])
    return together


def called_back(callback: Callable[[T], object], value: T) -> None:
    """Call a callback; what it raises is logged, for whoever reads what others wait for goes on.

    In the main thread Ctrl-C and `sys.exit` do what they do elsewhere.
    """
    try:
        callback(value)
    except BaseException as error:
        if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
            raise
        _log.exception("The callback of %r failed.", value)
