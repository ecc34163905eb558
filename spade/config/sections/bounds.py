"""The types of settings, each with its bounds, and the base of all sections.

msgspec checks the bounds when a config is read. No bound admits NaN.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

MOST = 2**31 - 1
"""The largest int of C. Some libraries take no larger number."""
MOST_BYTES = 2**50
MOST_SECONDS = 1e9  # 31 years
NOT_BLANK = r"\S"
RANGE = r"^[1-9][0-9]{0,3}\.\.[1-9][0-9]{0,3}\Z"

Count = Annotated[int, Meta(ge=1, le=MOST)]
CountOrZero = Annotated[int, Meta(ge=0, le=MOST)]
Positive = Annotated[float, Meta(gt=0, le=MOST)]
PositiveOrZero = Annotated[float, Meta(ge=0, le=MOST)]
Share = Annotated[float, Meta(ge=0, le=1)]
ShareAboveZero = Annotated[float, Meta(gt=0, le=1)]
Fraction = Annotated[float, Meta(gt=0, lt=1)]
Seconds = Annotated[float, Meta(gt=0, le=MOST_SECONDS)]
SecondsOrZero = Annotated[float, Meta(ge=0, le=MOST_SECONDS)]
Bytes = Annotated[int, Meta(ge=1, le=MOST_BYTES)]
BytesOrZero = Annotated[int, Meta(ge=0, le=MOST_BYTES)]
Gpu = Annotated[int, Meta(ge=0, le=MOST)]
Name = Annotated[str, Meta(pattern=NOT_BLANK)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all sections. A literal directly below a setting is its documentation (`spade.config.described`)."""
