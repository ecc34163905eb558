"""Read the parts of published weights that another host asks for."""

import re
from pathlib import Path

from spade.policy.manifest import MANIFEST, PARAMETERS
from spade.protocol import GetWeights, Refused, WeightsPart

FILES = (PARAMETERS, MANIFEST, "canary.json", "config.json")

_DIGEST = re.compile(r"[0-9a-f]{32}")


def check_request(request: GetWeights) -> Refused | None:
    """Refuse a malformed request for a part. Returns None if the request is sound."""
    if not _DIGEST.fullmatch(request.digest) or request.file not in FILES:
        return Refused(f"there are no published weights {request.digest!r} with a file {request.file!r}")
    if request.offset < 0 or request.count < 1:
        return Refused(f"{request.count} bytes from {request.offset} are not within a file")
    return None


def read_part(folder: Path, request: GetWeights, most: int) -> WeightsPart | Refused:
    """Return the requested part of the weights in `folder`, cut to `most` bytes.

    Returns Refused if the weights are missing or were deleted. The request must have passed `check_request`.
    """
    try:
        with (folder / request.file).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(min(request.offset, size))
            return WeightsPart(file.read(min(request.count, most)), size)
    except FileNotFoundError:
        return Refused(f"weights {request.digest} are not here: newer ones have been published since")
