"""The model itself as the reviewer of programs. Its reviews are not trained on."""

from collections.abc import Sequence

from actors.play.session import Session
from actors.text.judge import read_judgement, read_reasoning, review
from actors.text.profile import ChatMessage
from spade.protocol import Verdict
from spade.seeds import derive

REVIEW_TEMPERATURE = 0.6
"""High enough that several reviews of one program find different faults."""


class Reviewer:
    """Reviews programs. Gauges: `reviews` asked for, `review_no` refusals, `reviews_unread` unreadable answers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._count = session.config.design.reviews
        if self._count:
            session.gauges.update(reviews=0, review_no=0, reviews_unread=0)

    async def refusal(self, source: str, admitted: Verdict, seed: int) -> str:
        """Return the first objection to an admitted program, "" if no review objects.

        Raises BusError if no engine answers.
        """
        most = self._session.config.design.max_tokens
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
    since a long program could otherwise avoid the question. Counts the questions, the noes and the unreadable answers
    in the gauges of this kind. Raises BusError if no engine answers.
    """
    reply = await session.ask(asked, most, temperature, seed)
    if reply is None:
        return "the program leaves no room for the question"
    agrees = read_judgement(reply.text)
    session.gauges[f"{kind}s"] += 1
    session.gauges[f"{kind}s_unread"] += agrees is None
    if agrees is not False:
        return ""
    session.gauges[f"{kind}_no"] += 1
    return read_reasoning(reply.text) or "the model gave no reason"
