"""Admit the programs of a foreign pool, several at once. A log keeps the verdicts, so that an import can resume."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import trio

from actors.environments.admission import admit_opened, derive_check_seed, find_domain, validate
from actors.sandbox import Sandbox, open_sandbox
from spade import progress
from spade.codec import compute_program_digest
from spade.config import Config, DomainName
from spade.decoding import UnreadableError, try_decode
from spade.disk import open_to_append, read
from spade.errors import RunError, format_reason
from spade.pools import PoolProgram
from spade.protocol import Verdict
from spade.text import as_line

LOG_BYTES = 1 << 28
_REPORT_S = 5.0  # between two lines about the progress
_LONGEST_REASON = 160


class AdmissionLine(msgspec.Struct, frozen=True):
    """A line of the log: the outcome of one program."""

    key: str
    """Digest of the program and of the settings that judged it."""

    stage: str = ""
    """The stage that rejected the program, or "" if it was admitted."""

    reason: str = ""
    """The stage's reason."""


class RejectedPrograms:
    """Counts rejected programs by stage, with the first reason of each stage."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, name: str, judged: AdmissionLine) -> None:
        """Count a rejected program."""
        self._counts[judged.stage] += 1
        self._first.setdefault(judged.stage, as_line(f"{name}: {judged.reason}", _LONGEST_REASON))

    def rows(self) -> Iterator[str]:
        """Yield the lines of a table, the most frequent stage first."""
        if self._counts:
            yield f"{'rejected by':<14} {'count':>6}  the first one"
        for stage, count in self._counts.most_common():
            yield f"{stage:<14} {count:>6}  {self._first[stage]}"


def admit(
    programs: Sequence[PoolProgram], config: Config, log: Path, libraries: bool, say: Callable[[str], None]
) -> tuple[list[PoolProgram], RejectedPrograms]:
    """Return the admitted programs in their order, and the rejected ones by stage.

    Programs pass the admission of `spade env check`. If `libraries`, the programs come from a library or a server, and
    each is only opened once. Appends verdicts to the file `log`, and does not judge a program that has a verdict there.

    Raises RunError if the sandbox fails or the log cannot be used.
    """
    settings = msgspec.msgpack.encode((config.sandbox, config.play, config.tools, config.run.domain)).hex()
    keys = [compute_program_digest(f"{settings}\n{each.source}") for each in programs]
    known = _read_log(log)
    left = [(key, each) for key, each in dict(zip(keys, programs, strict=True)).items() if key not in known]
    if left:
        with _append(log) as keep:
            trio.run(_judge_all, left, config, libraries, keep, known, say)
    admitted, rejections = [], RejectedPrograms()
    for key, program in zip(keys, programs, strict=True):
        if known[key].stage:
            rejections.add(program.name, known[key])
        else:
            admitted.append(program)
    return admitted, rejections


async def judge(sandbox: Sandbox, source: str, config: Config, library: bool = False) -> tuple[DomainName, Verdict]:
    """Put a program through admission. Return its domain and the verdict.

    The program's base class names the domain. If the program does not load, the config's domain counts. The seed
    follows from the program, so a program always gets the same verdict. Raises RunError if the sandbox fails.
    """
    seed = derive_check_seed(source)
    if library:
        return config.run.domain, await admit_opened(sandbox, source, seed, config.sandbox, config.play)
    domain = await find_domain(sandbox, source, config.sandbox) or config.run.domain
    return domain, await validate(sandbox, source, seed, config.sandbox, config.play, domain, config.tools)


async def _judge_all(
    left: Sequence[tuple[str, PoolProgram]],
    config: Config,
    library: bool,
    keep: Callable[[AdmissionLine], None],
    known: dict[str, AdmissionLine],
    say: Callable[[str], None],
) -> None:
    """Judge the programs `left`, one task for each core. Calls `keep` with each verdict and adds it to `known`."""
    waiting, reported = iter(left), time.monotonic()

    def count() -> int:
        return sum(each in known for each, _ in left)

    async def work() -> None:
        nonlocal reported
        for key, program in waiting:
            _, verdict = await judge(sandbox, program.source, config, library)
            last = verdict.stages[-1]
            judged = AdmissionLine(key) if verdict.passed else AdmissionLine(key, last.name, last.reason)
            keep(judged)
            known[key] = judged
            if not progress.is_displayed() and time.monotonic() - reported >= _REPORT_S:
                reported = time.monotonic()
                say(f"{count()} of {len(left)} programs judged")

    with progress.show("judging programs", len(left), count):
        async with open_sandbox(config.sandbox, fixed_hashes=True) as sandbox, trio.open_nursery() as nursery:
            for _ in range(os.cpu_count() or 1):
                nursery.start_soon(work)


@contextmanager
def _append(log: Path) -> Iterator[Callable[[AdmissionLine], None]]:
    """Yield a function that appends a line. A line is one write, so a kill leaves at most one torn line, at the end."""

    def write(judged: AdmissionLine) -> None:
        try:
            file.write(msgspec.json.encode(judged) + b"\n")
        except OSError as error:
            raise RunError(f"{log}: {format_reason(error)}; the verdicts before this one are kept") from None

    try:
        file = open_to_append(log, buffering=0)
    except OSError as error:
        raise RunError(f"{log}: {format_reason(error)}") from None
    with file:
        file.write(b"\n")  # ends a torn line
        yield write


def _read_log(log: Path) -> dict[str, AdmissionLine]:
    """Read the verdicts of an earlier import. Skips torn lines."""
    try:
        data = read(log, LOG_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RunError(f"{log}: {format_reason(error)}") from None
    found: dict[str, AdmissionLine] = {}
    for text in data.splitlines():
        try:
            judged = try_decode(_lines.decode, text)
        except UnreadableError:
            continue
        found[judged.key] = judged
    return found


_lines: msgspec.json.Decoder[AdmissionLine] = msgspec.json.Decoder(AdmissionLine)
