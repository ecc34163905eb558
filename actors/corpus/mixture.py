"""Builds a corpus from its spec. The same sources always give the same bytes, however often a build was interrupted.

Each text has a key: a hash of the text under the spec's seed. A source gives the documents with the smallest keys, and
the corpus is sorted by key. So neither the order of rows nor an interruption changes the result. A draft beside the
corpus holds the number of rows read and the documents found so far. The next build continues from the draft.
"""

import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import msgspec

from actors.corpus.cutting import cut_at_sentence, make_counter
from actors.corpus.documents import LONGEST, make, write_line
from actors.corpus.sources import TextRow
from actors.corpus.spec import CorpusSource, CorpusSpec, Exclusions
from spade.decoding import UnreadableError, try_decode
from spade.disk import replace
from spade.errors import RunError, format_reason
from spade.progress import follow, is_displayed
from spade.text import as_line

ROWS = 1_000  # rows between two commits of the draft
TELL_ROWS = 100_000  # rows between two progress lines

_DRAFT_ID = int.from_bytes(b"SPDR")  # SQLite's application_id of a draft
_TABLES = """
CREATE TABLE IF NOT EXISTS spec (fingerprint BLOB);
CREATE TABLE IF NOT EXISTS progress (source INTEGER PRIMARY KEY, state BLOB);
CREATE TABLE IF NOT EXISTS documents (key BLOB UNIQUE, source INTEGER, line BLOB);
CREATE INDEX IF NOT EXISTS by_source ON documents (source, key);
"""


class SourceProgress(msgspec.Struct):
    """The progress of reading a source."""

    rows: int = 0
    """Number of rows read."""

    dropped: dict[str, int] = {}
    """Number of rows that did not become documents, by reason."""

    greatest: bytes = b""
    """The greatest key that a new document may have. b"" allows any key."""

    done: bool = False
    """True once the source is read to its end."""

    def drop(self, why: str, count: int = 1) -> None:
        """Count rows that did not become documents."""
        self.dropped[why] = self.dropped.get(why, 0) + count


_progresses = msgspec.msgpack.Decoder(SourceProgress)


def build(spec: CorpusSpec, out: Path, tell: Callable[[str], None]) -> None:
    """Build the corpus `out`, or continue an interrupted build. `out` appears only when it is complete.

    `tell` receives a line for each source. Raises RunError if `out` exists, or if a source cannot be read or has too
    few documents. Raises ConfigError if a tokenizer or a package is missing, and OSError if `out` cannot be written.
    """
    _refuse_existing(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f"{out.name}.draft")
    fingerprint = spec.fingerprint()
    with _open_draft(draft, fingerprint) as base:
        _refuse_existing(out)  # check again under the lock: another build may have finished the corpus
        mixture = _Mixture(spec, base, tell)
        for number, count in enumerate(spec.counts()):
            mixture.take(number, count)
        if spec.fingerprint() != fingerprint:
            raise RunError(f"{out}: a source file changed during the build; the same command begins the build anew")
        _write(base, out)
        draft.unlink()


def _refuse_existing(out: Path) -> None:
    if os.path.lexists(out):
        raise RunError(f"{out}: exists already; remove it, or give another name")


def _write(base: sqlite3.Connection, out: Path) -> None:
    lines = (each for (each,) in base.execute("SELECT line FROM documents ORDER BY key"))
    try:
        replace(out, lines, durable=True)
    except OSError as error:
        raise RunError(f"{out}: was not written ({format_reason(error)}); the same command continues") from None


@contextmanager
def _open_draft(draft: Path, fingerprint: bytes) -> Iterator[sqlite3.Connection]:
    """Open the draft. Empty it if it belongs to another spec or other files."""
    if os.path.lexists(draft) and not stat.S_ISREG(draft.lstat().st_mode):
        raise RunError(f"{draft}: is not a regular file; remove it")
    try:
        with closing(sqlite3.connect(draft, timeout=0)) as base:
            base.execute("PRAGMA locking_mode = EXCLUSIVE")
            base.execute("BEGIN EXCLUSIVE")
            ((objects,),) = base.execute("SELECT count(*) FROM sqlite_schema")
            ((owner,),) = base.execute("PRAGMA application_id")
            if objects and owner != _DRAFT_ID:
                raise RunError(f"{draft}: is not a draft of this version; move it away")
            base.executescript(f"BEGIN EXCLUSIVE; PRAGMA application_id = {_DRAFT_ID}; {_TABLES} COMMIT;")
            if base.execute("SELECT fingerprint FROM spec").fetchall() != [(fingerprint,)]:
                for table in ("spec", "progress", "documents"):
                    base.execute(f"DELETE FROM {table}")
                base.execute("INSERT INTO spec VALUES (?)", (fingerprint,))
                base.commit()
            yield base
    except sqlite3.OperationalError as error:
        why = "another process builds this corpus" if "locked" in str(error) else as_line(str(error))
        raise RunError(f"{draft}: {why}") from None
    except sqlite3.DatabaseError as error:
        raise RunError(
            f"{draft}: is damaged ({as_line(str(error))}); remove it, and the corpus is built anew"
        ) from None


class _Mixture:
    """Reads the sources of a spec, one after another, into a draft."""

    def __init__(self, spec: CorpusSpec, base: sqlite3.Connection, tell: Callable[[str], None]) -> None:
        self._spec = spec
        self._base = base
        self._tell = tell
        self._seed = spec.seed.to_bytes(8, "big")
        self._exclusions = Exclusions(spec)
        self._count = make_counter(spec.tokenizer)

    def take(self, number: int, wanted: int | None) -> None:
        """Read a source to its end, continuing from its progress."""
        source = self._spec.source[number]
        progress = self._read_progress(number)
        if not progress.done:
            try:
                self._read(number, source, wanted, progress)
            except OSError as error:
                place = source.path if error.filename is None else os.fsdecode(error.filename)
                raise RunError(f"source {as_line(source.name)}: {place}: {format_reason(error)}") from None
            except RunError as error:
                raise RunError(f"source {as_line(source.name)}: {error}") from None
        kept = self._count_kept(number)
        self._tell(_summarise_source(source.name, kept, progress))
        if kept < (wanted or 1):
            raise RunError(
                f"source {as_line(source.name)}: has {kept} documents, {wanted or 1} are wanted; lower its share, "
                "or read more rows"
            )

    def _read(self, number: int, source: CorpusSource, wanted: int | None, progress: SourceProgress) -> None:
        rows = islice(source.read(), progress.rows, source.rows)
        for row in follow(rows, f"reading {source.name}", source.rows and source.rows - progress.rows):
            progress.rows += 1
            if dropped := self._add(number, source.name, row, progress.greatest):
                progress.drop(dropped)
            if progress.rows % ROWS == 0:
                if wanted and self._count_kept(number) > 2 * wanted:
                    self._prune(number, wanted, progress)
                self._commit(number, progress)
            if progress.rows % TELL_ROWS == 0 and not is_displayed():
                self._tell(f"{source.name}: {progress.rows} rows read")
        if wanted:
            self._prune(number, wanted, progress)
        progress.done = True
        self._commit(number, progress)

    def _add(self, number: int, name: str, row: TextRow, greatest: bytes) -> str:
        """Add a row to the draft. Return the reason if it is dropped, else "". The costliest checks come last."""
        text = row.text.replace("\r\n", "\n").strip()
        if not text:
            return "empty"
        key = hashlib.blake2b(text.encode(errors="surrogatepass"), key=self._seed, digest_size=16).digest()
        if greatest and key > greatest:
            return "not drawn"
        row_id = row.word("id") or row.id
        if {row_id, f"{name}/{row_id}"} & self._exclusions.ids or self._exclusions.hold(text):
            return "excluded"
        if self._spec.tokens and not (text := cut_at_sentence(text, self._spec.tokens, self._count)):
            return "with a first sentence of too many tokens"
        written = write_line(make(text, f"{name}/{row_id}", name, row.word("title")))
        if len(written) > LONGEST:
            return f"over {LONGEST} bytes"
        added = self._base.execute("INSERT OR IGNORE INTO documents VALUES (?, ?, ?)", (key, number, written))
        return "" if added.rowcount else "duplicate"

    def _prune(self, number: int, wanted: int, progress: SourceProgress) -> None:
        """Keep the documents with the smallest keys. Later documents with greater keys are not accepted."""
        last = self._base.execute(
            "SELECT key FROM documents WHERE source = ? ORDER BY key LIMIT 1 OFFSET ?", (number, wanted - 1)
        ).fetchone()
        if last is not None:
            (progress.greatest,) = last
            gone = self._base.execute("DELETE FROM documents WHERE source = ? AND key > ?", (number, progress.greatest))
            progress.drop("not drawn", gone.rowcount)

    def _count_kept(self, number: int) -> int:
        ((kept,),) = self._base.execute("SELECT count(*) FROM documents WHERE source = ?", (number,))
        return int(kept)

    def _read_progress(self, number: int) -> SourceProgress:
        found = self._base.execute("SELECT state FROM progress WHERE source = ?", (number,)).fetchone()
        try:
            return SourceProgress() if found is None else try_decode(_progresses.decode, found[0])
        except UnreadableError as error:
            raise sqlite3.DatabaseError(str(error)) from None

    def _commit(self, number: int, progress: SourceProgress) -> None:
        self._base.execute("REPLACE INTO progress VALUES (?, ?)", (number, msgspec.msgpack.encode(progress)))
        self._base.commit()


def _summarise_source(name: str, kept: int, progress: SourceProgress) -> str:
    dropped = ", ".join(f"{count} {why}" for why, count in sorted(progress.dropped.items()) if count)
    return f"{name}: {kept} documents of {progress.rows} rows; dropped: {dropped or 'none'}"
