"""Given data files: whatever is wrong with one is one line that says where."""

import os

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from actors.suites.rows import UniqueValues, compute_digest, read_rows
from spade.errors import ConfigError, RunError


def written(folder, name, data):
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


def test_the_three_forms_give_the_same_rows(tmp_path):
    parquet.write_table(pa.table({"Problem": ["1 + 1\n= ?", "é"], "Answer": ["2", "x"]}), tmp_path / "a.parquet")
    files = [
        tmp_path / "a.parquet",
        written(tmp_path, "a.jsonl", '{"Problem": "1 + 1\\n= ?", "Answer": "2"}\n\n{"Problem": "é", "Answer": "x"}'),
        written(tmp_path, "a.csv", 'Problem,Answer\r\n"1 + 1\n= ?",2\r\né,x\r\n'),
        written(tmp_path, "b.csv", b"\xef\xbb\xbf" + 'Problem,Answer\n"1 + 1\n= ?",2\né,x'.encode()),
    ]
    for file in files:
        assert [(row.text("problem"), row.text("ANSWER")) for row in read_rows(file)] == [
            ("1 + 1\n= ?", "2"),
            ("é", "x"),
        ]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2: Input data was truncated; a line is a JSON object"),
        ("a.jsonl", b'{"a": 1}\n[1]\n', "line 2: Expected `object`, got `array`; a line is a JSON object"),
        ("a.jsonl", b'{"a": 1}\n{"a": "caf\xe9"}\n', "line 2, column 11: is not UTF-8 text"),
        ("a.jsonl", b"[" * 9000, "line 1: "),
        ("a.csv", b"a,b\n1,2\n1,caf\xe9\n", "line 3, column 6: is not UTF-8 text; convert the file"),
        ("a.csv", b'a,b\n"1\n2",3\n1\n', "line 4: has 1 columns, and the first line names 2"),
        ("a.csv", b"a,b\n1,2,3\n", "line 2: has 3 columns, and the first line names 2"),
        ("a.csv", b'a,b\n1,"2', "line 2: is not valid CSV"),
        ("a.csv", b"a, A\n1,2\n", "line 1: names a column twice"),
        ("a.parquet", b"PAR1 nonsense", "row 1: "),
    ],
)
def test_damage_is_one_line_that_says_where(tmp_path, name, data, said):
    file = written(tmp_path, name, data)
    with pytest.raises(RunError) as caught:
        list(read_rows(file))
    assert str(caught.value).startswith(f"{file}, {said}")
    assert str(caught.value).isprintable()


@given(st.binary(max_size=200), st.sampled_from(["x.jsonl", "x.csv", "x.parquet"]))
def test_any_bytes_are_rows_or_one_line(tmp_path_factory, data, name):
    file = written(tmp_path_factory.getbasetemp(), name, data)
    try:
        found = list(read_rows(file))
    except RunError as error:
        found = str(error)
    assert isinstance(found, list) or found.isprintable()


def test_another_suffix_and_what_is_no_file_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"must end in \.jsonl or \.csv or \.parquet"):
        list(read_rows(written(tmp_path, "a.json", "[]")))
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(OSError, match="not a regular file"):
        list(read_rows(tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"b": 1, "\\u001b[2J": 2}', r"has no column 'a' or 'c'; its columns: b, \\x1b\[2j"),
        ('{"a": null}', "has no column 'a'"),
        ('{"a": " "}', "column 'a': is empty"),
        ('{"a": [1]}', "column 'a': must be text, is list"),
        ('{"a": true}', "column 'a': must be text, is bool"),
    ],
)
def test_a_column_that_is_no_text_is_one_line(tmp_path, data, said):
    (row,) = read_rows(written(tmp_path, "a.jsonl", data))
    with pytest.raises(RunError, match=f"line 1.*{said}"):
        row.text("a", "c")


def test_names_of_items_are_short_and_printable(tmp_path):
    good, missing, long, odd = read_rows(
        written(tmp_path, "a.jsonl", '{"id": 7}\n{}\n{"id": "' + "x" * 101 + '"}\n{"id": "a\\u001b"}\n')
    )
    assert (good.id(1, "id"), missing.id(2, "id")) == ("7", "2")
    for row in (long, odd):
        with pytest.raises(RunError, match="is not a valid name"):
            row.id(3, "id")


def test_what_comes_twice_is_refused_with_both_places(tmp_path):
    one, other = read_rows(written(tmp_path, "a.jsonl", '{"id": "x"}\n{"id": "x"}\n'))
    once = UniqueValues()
    once.add(one, "id", "x")
    with pytest.raises(RunError, match=r"line 2: has the same id as line 1: 'x'"):
        once.add(other, "id", "x")


def test_a_files_digest_is_its_sha256(tmp_path):
    assert (
        compute_digest(written(tmp_path, "a", b""))
        == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
