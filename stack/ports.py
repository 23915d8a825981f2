"""Free ports on 127.0.0.1, and whether one answers.

A free port can be taken by somebody else before the server binds it; no one can rule that out, so a server that fails
to bind is started again with other ports (`BindError`).
"""

from __future__ import annotations

import socket
from contextlib import ExitStack

HOST = "127.0.0.1"


class BindError(Exception):
    """A server could not bind its port; start it again with another one."""


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind((HOST, 0))
        return [sock.getsockname()[1] for sock in sockets]


def is_free(port: int) -> bool:
    """Whether a server could bind this port now."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return False
        return True


def answers(port: int, *, timeout_s: float = 0.5) -> bool:
    """Whether something accepts connections on this port."""
    try:
        with socket.create_connection((HOST, port), timeout_s):
            return True
    except OSError:
        return False
