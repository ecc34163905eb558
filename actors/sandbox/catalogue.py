"""List the environments of a library in a separate process, since libraries reseed generators and start threads."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from actors.sandbox.opening import require
from spade.errors import RunError
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
        done = subprocess.run(
            [sys.executable, "-c", _LIST, library, *asked], capture_output=True, timeout=LISTED_S, check=True
        )
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise RunError(f"{library}: does not load ({as_line(last, 200)})") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{library}: does not load within {LISTED_S:g} s") from None
    found: dict[str, dict[str, Any]] = msgspec.json.decode(done.stdout.splitlines()[-1])
    return found
