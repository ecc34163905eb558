"""The model itself as the judge of first observations and the reviewer of programs. Not trained on."""

from collections.abc import Sequence

from actors.roles.session import Session
from actors.text.judge import ask_question, read_judgement, read_reasoning, review
from actors.text.profile import ChatMessage
from spade.protocol import Verdict
from spade.seeds import derive

TEMPERATURE = 0.1
"""As good as greedy, and within the temperatures of each kind of engine."""
REVIEW_TEMPERATURE = 0.6
"""High enough that several reviews of one program find different faults."""


class Judge:
    """Judges first observations. Gauges: `judgements` asked for, `judgements_unread` with an unreadable answer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asks = session.config.design.judge
        if self._asks:
            session.gauges.update(judgements=0, judgements_unread=0)

    async def reveals(self, source: str, admitted: Verdict, seed: int) -> bool | None:
        """Return True if the first observation reveals the method, None if this is not known.

        If the profile can tell from the text alone, the model is not asked. Raises BusError if no engine answers.
        """
        known = self._session.profile.reveals(admitted.name, admitted.first_observation)
        if known is not None or not self._asks:
            return known
        most = self._session.config.design.hint_max_tokens
        reply = await self._session.ask(ask_question(source, admitted.first_observation), most, TEMPERATURE, seed)
        said = None if reply is None else read_judgement(reply.text)
        self._session.gauges["judgements"] += 1
        self._session.gauges["judgements_unread"] += said is None
        return said


class Reviewer:
    """Reviews programs. Gauges: `reviews` asked for, `review_no` refusals, `reviews_unread` unreadable answers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._count = session.config.design.reviews
        if self._count:
            session.gauges.update(reviews=0, review_no=0, reviews_unread=0)

    async def refusal(self, source: str, admitted: Verdict, seed: int) -> str:
        """Return the first objection to an admitted program, "" if all reviews agree.

        Raises BusError if no engine answers.
        """
        most = self._session.config.design.review_max_tokens
        asked = review(source, admitted.first_observation)
        for number in range(self._count):
            sampler = derive(b"", "review", seed, number)
            if reason := await ask_objection(self._session, "review", asked, most, REVIEW_TEMPERATURE, sampler):
                return reason
        return ""


async def ask_objection(
    session: Session, kind: str, asked: Sequence[ChatMessage], most: int, temperature: float, seed: int
) -> str:
    """Ask the model a question about a program. Returns its reason if it answers no, else "".

    An unreadable answer does not count against the program. A program that leaves no room for the question is refused,
    or length would be a way around it. Counts in the gauges of this kind: asked, no, unread. Raises BusError if no
    engine answers.
    """
    said = await session.ask(asked, most, temperature, seed)
    if said is None:
        return "the program leaves no room for the question"
    agrees = read_judgement(said.text)
    session.gauges[f"{kind}s"] += 1
    session.gauges[f"{kind}s_unread"] += agrees is None
    if agrees is not False:
        return ""
    session.gauges[f"{kind}_no"] += 1
    return read_reasoning(said.text) or "the model gave no reason"
