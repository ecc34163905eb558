"""Read a file with an API key, which we send to a server or expect from our clients."""

from spade.disk import expand_home, read
from spade.errors import ConfigError, RunError
from spade.text import quote

KEY_BYTES = 4_096
OTHERS = 0o077
"""Bits of a file's mode that let its group or others use it."""


def describe_exposure(path: str) -> str:
    """Describe how others may read the key in a file. Returns "" if they cannot, or if `path` is ""."""
    if not path or not expand_home(path).stat().st_mode & OTHERS:
        return ""
    return f"{path}: others may read this key; `chmod 600 {quote(path)}`, and take another key if they did"


def read_key(path: str, setting: str) -> str:
    """Read the key in a file, or return "" if `path` is "".

    Raises ConfigError, which names the setting, if the file cannot be read or does not hold a key.
    """
    if not path:
        return ""
    try:
        key = read(expand_home(path), KEY_BYTES).strip().decode("latin-1")
    except OSError as error:
        raise ConfigError(f"{setting}: {path}: {error.strerror}") from None
    except RunError as error:  # the file is too long
        raise ConfigError(f"{setting}: {error}") from None
    if not (key and key.isascii() and key.isprintable()):
        raise ConfigError(f"{setting}: {path}: is not a key; a key is one line of ASCII")
    return key
