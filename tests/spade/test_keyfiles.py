"""Files with a key: one line of ASCII, or a line that says what is wrong."""

import pytest

from spade.errors import ConfigError
from spade.keyfiles import KEY_BYTES, describe_exposure, read_key


def test_a_key_is_a_line_without_its_end(tmp_path):
    (tmp_path / "key").write_text("open sesame\n")
    assert read_key(str(tmp_path / "key"), "serve.key") == "open sesame"
    assert read_key("", "serve.key") == ""


@pytest.mark.parametrize("data", [b"", b" \n", b"two\nlines", b"\x1b[2J", "schlüssel".encode()])
def test_a_file_without_a_key_is_refused_so_that_nobody_serves_without_one(tmp_path, data):
    (tmp_path / "key").write_bytes(data)
    with pytest.raises(ConfigError, match=r"^serve.key: .*/key: is not a key; a key is one line of ASCII$"):
        read_key(str(tmp_path / "key"), "serve.key")


def test_a_file_that_is_too_long_for_a_key_is_refused_by_the_setting(tmp_path):
    (tmp_path / "key").write_bytes(b"x" * (KEY_BYTES + 1))
    with pytest.raises(ConfigError, match=r"^serve.key: .*/key: is over 4096 bytes$"):
        read_key(str(tmp_path / "key"), "serve.key")


def test_a_key_that_others_may_read_is_told(tmp_path):
    key = tmp_path / "key"
    key.write_text("open sesame\n")
    for mode, told in ((0o600, ""), (0o640, f"{key}: others may read this key; `chmod 600 {key}`, and ")):
        key.chmod(mode)
        assert describe_exposure(str(key)).startswith(told)
        assert bool(describe_exposure(str(key))) is bool(told)
    assert describe_exposure("") == ""
