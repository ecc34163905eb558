"""The settings of tool use, from the package or a file, and the digest that covers them."""

import os

import pytest

from actors import corpus
from actors.corpus.settings import BUILTIN, LONGEST, read_settings
from spade.config import load
from spade.errors import ConfigError


def test_the_builtin_settings_are_ten_different_ones():
    assert read_settings("builtin") == BUILTIN
    assert len(set(BUILTIN)) == 10
    assert all(len(setting) <= LONGEST for setting in BUILTIN)


def test_a_file_has_one_a_line_and_blank_lines_count_for_nothing(tmp_path):
    file = tmp_path / "settings.txt"
    file.write_text("a lighthouse\n\n  the museum of a small town \r\n\n")
    assert read_settings(str(file)) == ("a lighthouse", "the museum of a small town")
    file.write_bytes(b"\xef\xbb\xbfa lighthouse\n")
    assert read_settings(str(file)) == ("a lighthouse",)


@pytest.mark.parametrize(("content", "says"), [
    (b"", "holds no setting; write one per line"),
    (b" \n\n\t\n", "holds no setting; write one per line"),
    (b"a desk\n\xff\n", "is not UTF-8 text"),
    (b"a desk\n" + b"x" * (LONGEST + 1), "line 2: must be printable text of at most 256 characters"),
    (b"a \x1b[2Jdesk\n", "line 1: must be printable text"),
    (b"x\n" * (1 << 20), "is over 1048576 bytes"),
    (None, "No such file or directory; give a text file, or 'builtin'"),
])  # fmt: skip
def test_a_file_that_is_none_is_refused_in_one_line_with_its_path(tmp_path, content, says):
    file = tmp_path / "settings.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_settings(str(file))
    told = str(caught.value)
    assert told.startswith("tools.settings: ")
    assert str(file) in told
    assert says in told
    assert "\n" not in told


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"^tools\.settings: .*pipe: .*not a regular file; give a text file"):
        read_settings(str(tmp_path / "pipe"))


def test_the_grounds_of_a_run_are_those_of_its_domain():
    games, tools = (corpus.load_grounds(load("nano", (f"run.domain={name}",))) for name in ("games", "tools"))
    assert (games.settings, games.digest) == ((), corpus.load("builtin").digest)
    assert (tools.settings, tools.digest) == (BUILTIN, corpus.load("builtin", "tools").digest)


def test_other_settings_are_another_digest_and_games_read_none(tmp_path):
    file = tmp_path / "settings.txt"

    def digest(text, domain="tools"):
        file.write_text(text)
        return corpus.load_grounds(load("nano", (f"run.domain={domain}", f"tools.settings={str(file)!r}"))).digest

    assert len({digest("a desk"), digest("a bank"), digest("a desk\na bank"), digest("a bank\na desk")}) == 4
    assert digest("a desk") == digest("\na desk\n")
    assert digest("\n".join(BUILTIN)) == corpus.load("builtin", "tools").digest
    assert digest("", "games") == corpus.load("builtin").digest
