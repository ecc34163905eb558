"""The screen of admitted programs: asks the model itself whether a player can learn everything that is needed to win.

Admission shows that the program's own solution wins, but not that a player could find this solution. Screens are not
trained on.
"""

from bisect import bisect_right
from functools import partial

import trio

from actors.play.session import Session
from actors.roles.judge import ask_objection
from actors.text.profile import ChatMessage, Profile
from spade.protocol import Verdict
from spade.tokens import Tokenizer

TEMPERATURE = 0.3


class Screener:
    """Screens admitted programs.

    Gauges: `screens` asked for, `screen_no` refusals, `screens_unread` unreadable answers.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asks = session.config.tools.screen
        if self._asks:
            session.gauges.update(screens=0, screen_no=0, screens_unread=0)

    async def refusal(self, source: str, admitted: Verdict, seed: int) -> str:
        """Return the objection to an admitted program, "" without one. Raises BusError if no engine answers.

        If the transcript is long, only its beginning is shown.
        """
        if not self._asks:
            return ""
        session, most = self._session, self._session.config.design.max_tokens
        room = session.config.engine.context_tokens - most
        # Programs and transcripts may be long, so encode them in a thread.
        asked = await trio.to_thread.run_sync(
            partial(fit_question, session.profile, session.tokenizer, source, admitted, room)
        )
        # A profile without such a question never objects.
        return await ask_objection(session, "screen", asked, most, TEMPERATURE, seed) if asked else ""


def fit_question(
    profile: Profile, tokenizer: Tokenizer, source: str, admitted: Verdict, room: int
) -> list[ChatMessage]:
    """Return the question with as much of the transcript as fits into `room` tokens.

    Returns an empty list if the profile has no such question. The question may exceed `room` even without a transcript.
    """
    whole = admitted.replayed

    def ask_about(length: int) -> list[ChatMessage]:
        shown = whole if length == len(whole) else f"{whole[:length]}\n[The rest is left out.]"
        return profile.screen(source, shown, admitted.suspects) or []

    def count_tokens(length: int) -> int:
        return len(tokenizer.prompt_ids(ask_about(length), room))

    if not ask_about(0) or count_tokens(len(whole)) <= room:
        return ask_about(len(whole))
    return ask_about(max(0, bisect_right(range(len(whole)), room, key=count_tokens) - 1))
