"""LiveCodeBench v6: the 175 problems of its newest slice. Each asks for a program that passes all tests.

The file is the slice's `test6.jsonl`. A row's private tests are packed, and their inner layer is a pickle. Opening
a pickle can execute code, so the tests stay packed here and are opened only inside the sandbox.
"""

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from actors.suites.programs import write_program
from actors.suites.rows import DataRow, UniqueValues, read_rows
from actors.suites.suite import Suite
from spade.decoding import UnreadableError, try_decode
from spade.errors import RunError, format_reason
from spade.evaluations import Protocol, Sampling, SuiteItem
from spade.protocol import Needs

_ASK = """{problem}

Solve this in Python. Where starter code is given, complete it; else read the standard input and print the answer. \
Reason first, and end with the whole program in one block fenced by ```python and ```."""
_PACKED = re.compile(r"[A-Za-z0-9+/\n]*={0,2}")
_PAPER = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=16_384)
_RELEASE = Sampling(temperature=0.2, top_p=0.95, max_tokens=16_384)
_SHORT = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=8_192)
_TEST_S = 6.0
_NONE = "[]"
MOST_TESTS = 16 << 20  # characters of all tests of a problem


class _Case(msgspec.Struct, frozen=True):
    input: str
    output: str
    testtype: Annotated[str, msgspec.Meta(pattern=r"^(stdin|functional)\Z")]


class _Metadata(msgspec.Struct, frozen=True):
    func_name: Annotated[str, msgspec.Meta(max_length=200, pattern=r"^([A-Za-z_]\w*)?\Z")] | None = None


_cases = msgspec.json.Decoder(list[_Case])
_metadata = msgspec.json.Decoder(_Metadata)


def read(_: Protocol, data: Path | None) -> list[SuiteItem]:
    """See Reader."""
    assert data is not None
    once = UniqueValues()
    return [_make_item(row, once) for row in read_rows(data)]


def _make_item(row: DataRow, once: UniqueValues) -> SuiteItem:
    name, problem = row.id(None, "question_id"), row.text("question_content")
    once.add(row, "question_id", name)
    once.add(row, "question_content", problem)
    starter = row.find("starter_code") or ""
    if not isinstance(starter, str):
        raise RunError(f"{row.where}, column 'starter_code': must be text")
    metadata = _decode_json(row, "metadata", _metadata) if row.find("metadata") else _Metadata()
    tests, hidden = _encode_tests(_decode_json(row, "public_test_cases", _cases)), _read_hidden(row)
    if tests == hidden == _NONE:
        raise RunError(f"{row.where}: has no test")
    if len(tests) + len(hidden) > MOST_TESTS:
        raise RunError(f"{row.where}: its tests are over {MOST_TESTS} characters")
    source = write_program(
        "CodeTestsEnv",
        question=f"{problem}\n\nStarter code:\n```python\n{starter}\n```" if starter.strip() else problem,
        function=metadata.func_name or "",
        tests=tests,
        hidden=hidden,
        test_s=_TEST_S,
    )
    return SuiteItem(name, row.category("difficulty"), source)


def _read_hidden(row: DataRow) -> str:
    """Return the private tests: as JSON, or packed as they were given. Raises RunError."""
    given = row.find("private_test_cases") or ""
    if not isinstance(given, str):
        raise RunError(f"{row.where}, column 'private_test_cases': must be text")
    given = given.strip()
    if given.startswith("["):
        return _encode_tests(_decode_json(row, "private_test_cases", _cases))
    if not _PACKED.fullmatch(given):
        raise RunError(f"{row.where}, column 'private_test_cases': is neither a list of tests nor base64")
    return given or _NONE


def _decode_json(row: DataRow, column: str, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode a column. The column holds JSON as text, or the value itself."""
    value = row.find(column)
    try:
        return try_decode(decoder.decode, value.encode() if isinstance(value, str) else msgspec.json.encode(value))
    except (UnreadableError, UnicodeEncodeError) as error:
        raise RunError(f"{row.where}, column {column!r}: {format_reason(error)}") from None


def _encode_tests(tests: list[_Case]) -> str:
    return msgspec.json.encode(tests).decode()


LIVECODEBENCH = Suite(
    "livecodebench-v6",
    {
        "paper": Protocol(name="paper", prompt=_ASK, sampling=_PAPER, samples=1, grading="program"),
        "release": Protocol(name="release", prompt=_ASK, sampling=_RELEASE, samples=1, grading="program"),
        "short": Protocol(name="short", prompt=_ASK, sampling=_SHORT, samples=1, grading="program"),
    },
    read,
    size=175,
    columns="test6.jsonl with question_id, question_content, starter_code, public_ and private_test_cases, metadata",
    needs=Needs(step_s=300.0, memory_bytes=2 << 30),
)
