"""List the environments of a library in a separate process, since libraries reseed generators and start threads."""

import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from actors.sandbox.opening import require
from spade.decoding import UnreadableError, try_decode
from spade.errors import RunError
from spade.processes.commands import run_child
from spade.text import as_line

LISTED_S = 120.0
_LIST = (
    "import json, sys; from actors.sandbox.inside.libraries import programs; "
    "print(json.dumps(programs(sys.argv[1], sys.argv[2:])))"
)


def list_catalogue(library: str, asked: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the program attributes of each environment worth playing, by the environment's name.

    If the tasks of a library must be read first, only the environments named in `asked` get their tasks. Raises
    RunError if the library is not installed in the supported version, or does not load.
    """
    require((library,))
    try:
        done = run_child(
            [sys.executable, "-P", "-c", _LIST, library, *asked], capture_output=True, timeout=LISTED_S, check=True
        )
        return try_decode(_catalogues.decode, done.stdout.strip().rpartition(b"\n")[2])
    except UnreadableError:  # the library ended the process, or printed other text too
        raise RunError(f"{library}: does not load (it does not list its environments)") from None
    except subprocess.CalledProcessError as error:
        raise RunError(f"{library}: does not load ({_find_error(error.stderr.decode(errors='replace'))})") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{library}: does not load within {LISTED_S:g} s") from None


def _find_error(output: str) -> str:
    """Return the last error of a traceback as one line. The error may have several lines, and rows of asterisks."""
    starts = [found.start() for found in re.finditer(r"^[\w.]*(?:Error|Exception)\b", output, re.MULTILINE)]
    last = output[starts[-1] :] if starts else output.strip().rpartition("\n")[2]
    return as_line(re.sub(r"[\s*]+", " ", last).strip(), 200)


_catalogues: msgspec.json.Decoder[dict[str, dict[str, Any]]] = msgspec.json.Decoder(dict[str, dict[str, Any]])
