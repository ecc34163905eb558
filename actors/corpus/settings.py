"""The settings of a domain with variants: everyday services that programs simulate, one per line of a file."""

import hashlib
from pathlib import Path

from spade.disk import read
from spade.errors import ConfigError, RunError, format_reason
from spade.protocol import MOST_NAME

BUILTIN = (
    "the orders of an online shop: their lines, their delivery, what is returned and refunded",
    "journeys: flights and hotel rooms that are found, booked, changed and cancelled",
    "the customer accounts of a telephone company: lines, tariffs, allowances, faults and bills",
    "a bank: accounts, payments, standing orders, cards and their limits",
    "a calendar that several people share: appointments, invitations, rooms and reminders",
    "a store of files and folders: finding, moving, renaming and sharing them, and their versions",
    "a shopping cart: articles, quantities, vouchers, ways to deliver and to pay",
    "a help desk: tickets, their priority, the staff who work on them, and what was answered",
    "a home whose lamps, heating, locks and alarms are switched from afar and by rules",
    "a board of tasks: projects, deadlines, what depends on what, and who does it",
)
"""Ten settings, as in the paper. The paper names five: a bank, retail, tickets, telecom, a smart home."""
LONGEST = MOST_NAME  # most characters of a setting; messages of the bus allow no more


def read_settings(path: str) -> tuple[str, ...]:
    """Return the settings that "builtin" or a file holds. Ignores blank lines.

    Raises ConfigError if the file cannot be read or has no valid settings.
    """
    if path == "builtin":
        return BUILTIN
    try:
        text = read(Path(path)).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tools.settings: {path}: {format_reason(error)}; give a text file, or 'builtin'") from None
    except RunError as error:
        raise ConfigError(f"tools.settings: {error}") from None
    lines = [(number, stripped) for number, each in enumerate(text.split("\n"), 1) if (stripped := each.strip())]
    for number, setting in lines:
        if len(setting) > LONGEST or not setting.isprintable():
            raise ConfigError(
                f"tools.settings: {path}, line {number}: must be printable text of at most {LONGEST} characters"
            )
    if not lines:
        raise ConfigError(f"tools.settings: {path} holds no setting; write one per line")
    return tuple(setting for _, setting in lines)


def compute_digest(documents: str, settings: tuple[str, ...]) -> str:
    """Return the digest of documents and settings.

    If the settings are shipped or empty, this is the digest of the documents.
    """
    if settings in ((), BUILTIN):
        return documents
    return hashlib.blake2b("\n".join((documents, *settings)).encode(), digest_size=16).hexdigest()
