"""The model itself as the judge of first observations and the reviewer of programs. Not trained on."""

from collections.abc import Sequence

from actors.roles.session import Session
from actors.text.judge import judgement, question, reasoning, review
from actors.text.profile import ChatMessage
from spade.protocol import Verdict
from spade.seeds import derive

TEMPERATURE = 0.1
"""As good as greedy, and within what each kind of engine samples at."""
REVIEW_TEMPERATURE = 0.6
"""Several reviews of one program are to find different faults."""


class Judge:
    """Gauges: `judgements` asked for, `judgements_unread` of which the answer could not be read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._asks = session.config.design.judge
        if self._asks:
            session.gauges.update(judgements=0, judgements_unread=0)

    async def reveals(self, source: str, admitted: Verdict, seed: int) -> bool | None:
        """True if the first observation reveals the method; None where it is not known.

        The profile may tell from the text alone, then nobody is asked. Raises BusError where no engine answers.
        """
        known = self._session.profile.reveals(admitted.name, admitted.first_observation)
        if known is not None or not self._asks:
            return known
        most = self._session.config.design.hint_max_tokens
        reply = await self._session.ask(question(source, admitted.first_observation), most, TEMPERATURE, seed)
        said = None if reply is None else judgement(reply.text)
        self._session.gauges["judgements"] += 1
        self._session.gauges["judgements_unread"] += said is None
        return said


class Reviewer:
    """Gauges: `reviews` asked for, `review_no` of them that refused, `reviews_unread` of which no answer was read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._count = session.config.design.reviews
        if self._count:
            session.gauges.update(reviews=0, review_no=0, reviews_unread=0)

    async def refusal(self, source: str, admitted: Verdict, seed: int) -> str:
        """The first reason against an admitted program, "" if no review has one. Raises BusError without an engine."""
        most = self._session.config.design.review_max_tokens
        asked = review(source, admitted.first_observation)
        for number in range(self._count):
            sampler = derive(b"", "review", seed, number)
            if reason := await objection(self._session, "review", asked, most, REVIEW_TEMPERATURE, sampler):
                return reason
        return ""


async def objection(
    session: Session, kind: str, asked: Sequence[ChatMessage], most: int, temperature: float, seed: int
) -> str:
    """The reason of the model that answers a question about a program with no, "" where it does not.

    An answer that cannot be read is none against the program. A program beside which the question has no room is
    refused, else length would be a way around it. Counts in the gauges of this kind: asked, no, unread. Raises BusError
    where no engine answers.
    """
    said = await session.ask(asked, most, temperature, seed)
    if said is None:
        return "the program leaves no room for the question"
    agrees = judgement(said.text)
    session.gauges[f"{kind}s"] += 1
    session.gauges[f"{kind}s_unread"] += agrees is None
    if agrees is not False:
        return ""
    session.gauges[f"{kind}_no"] += 1
    return reasoning(said.text) or "the model gave no reason"
