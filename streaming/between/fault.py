"""In which file of a domain from outside something failed, as the traceback tells."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from typing import Final, NamedTuple

from ...schemas.domain import Domain

_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+)')


class Fault(NamedTuple):
    """A line of a domain's file.

    Attributes:
        domain: its name.
        file: from the package's folder on.
        line: in it.
        error: what went wrong there, its class and text.
    """

    domain: str
    file: str
    line: int
    error: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


def fault_in(error: BaseException, domains: Iterable[Domain]) -> Fault | None:
    """The innermost line of some domains' files that an error went through; None where it went through none.

    The traceback's text is read, since that of a task comes to the driver as the text of an error of Spark.
    """
    folders = {f"{domain.package.replace('.', '/')}/": domain.name for domain in domains if domain.package}
    text = "".join(traceback.format_exception(error))
    for frame in reversed([*_FRAME.finditer(text)]):
        for folder, name in folders.items():
            _, found, file = frame[1].replace("\\", "/").rpartition(f"/{folder}")
            if found:
                return Fault(name, folder + file, int(frame[2]), _error_behind(text[frame.end() :]))
    return None


def _error_behind(text: str) -> str:
    """The error that ends a traceback: the first line that is not indented as its frames are."""
    return next((line.strip() for line in text.splitlines()[1:] if line[:1].strip()), "")
