"""The judge of first observations: the model itself, asked once for each admitted program. Not trained on."""

from actors.roles.session import Session
from actors.text.judge import judgement, question
from spade.protocol import Verdict

TEMPERATURE = 0.1
"""As good as greedy, and within what each kind of engine samples at."""


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
