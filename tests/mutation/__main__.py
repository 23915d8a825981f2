"""A mutation run over `rules/`: `python -m tests.mutation` (see docs/mutation.md).

Prints how many of the small changes to the rules the tests notice, and every one that they do not. Ends with 1 when a
survivor is not among those that docs/mutation.md explains, or fewer than 90 % are killed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .operators import Mutant, mutants, shortened
from .runner import ROOT, TESTS, Runner, Verdict

LEAST_SHARE: Final = 0.9
PURE: Final = frozenset({"rights", "rules"})
"""Files of a domain that judge."""
EXPLAINED: Final = ROOT / "docs" / "mutation.md"


def main(arguments: Sequence[str]) -> int:
    """Run and report; the exit code."""
    options = _options(arguments)
    chosen = _chosen(options)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        runner = Runner(Path(folder), options.processes, TESTS[options.of])
        took_s = runner.prepare()
        print(f"{len(chosen)} mutants; the tests take {took_s:.1f} s on the rules as they are", flush=True)
        verdicts = []
        for verdict in runner.verdicts(chosen):
            verdicts.append(verdict)
            if verdict.outcome != "killed":
                print(f"{len(verdicts)}/{len(chosen)} {verdict.outcome}: {verdict.mutant}", flush=True)
    if options.output:
        Path(options.output).write_text(json.dumps([one._asdict() | one.mutant._asdict() for one in verdicts]))
    return _report(verdicts, time.monotonic() - began, least=0 if options.again else LEAST_SHARE)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description="which changes to rules/ go unnoticed"
    )
    parser.add_argument("files", nargs="*", help="files of rules/, all by default; rules/entity.py:97 is one line")
    parser.add_argument("--of", choices=sorted(TESTS), default="rules", help="the folder to change (rules)")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="children at a time (2)")
    parser.add_argument("--output", metavar="FILE", help="write every verdict as JSON")
    parser.add_argument("--again", metavar="FILE", help="only those that FILE, an earlier --output, has not as killed")
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    paths = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / options.of).glob("*.py"))
    paths = [path for path in paths if options.of == "rules" or Path(path).stem in PURE]
    found = [mutant for path in paths for mutant in mutants(path, (ROOT / path).read_bytes())]
    if options.files:
        wanted = set(options.files)
        found = [one for one in found if {one.path, f"{one.path}:{one.line}"} & wanted]
    if options.again:
        verdicts = json.loads(Path(options.again).read_text())
        left = {tuple(one[name] for name in Mutant._fields) for one in verdicts if one["outcome"] != "killed"}
        found = [one for one in found if one in left]
    return found


def _report(verdicts: Sequence[Verdict], took_s: float, least: float) -> int:
    counts = Counter(verdict.outcome for verdict in verdicts)
    killed = counts["killed"] + counts["timed out"]
    share = killed / max(1, len(verdicts))
    asserted = sum(verdict.how in {"AssertionError", "Failed"} for verdict in verdicts)
    print(
        f"mutants {len(verdicts)}, killed {counts['killed']} ({asserted} by an assertion that does not hold), ", end=""
    )
    print(f"timed out {counts['timed out']}, survived {counts['survived']}: {share:.1%} in {took_s:.0f} s")
    explained = EXPLAINED.read_text(encoding="utf-8") if EXPLAINED.exists() else ""
    survivors = sorted(
        (one.mutant for one in verdicts if one.outcome == "survived"), key=lambda one: (one.path, one.line)
    )
    unexplained = [one for one in survivors if named(one) not in explained]
    for mutant in survivors:
        known = "" if mutant not in unexplained else " and is not explained"
        print(f"  survived{known}: {mutant.path}:{mutant.line} {named(mutant)}")
    if counts["broken"]:
        print(f"  {counts['broken']} runs failed by themselves; they count as survived")
    return int(bool(unexplained or counts["broken"]) or share < least)


def named(mutant: Mutant) -> str:
    """A survivor as docs/mutation.md names it: by the text around it, since line numbers move."""
    line = (ROOT / mutant.path).read_text(encoding="utf-8").splitlines()[mutant.line - 1]
    return f"in `{shortened(line)}`: `{shortened(mutant.before)}` to `{shortened(mutant.after)}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
