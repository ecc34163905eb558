"""The judge of first observations: the model itself, asked once for each admitted program. Not trained on."""

from actors.roles.session import Session
from actors.text.judge import judgement, question
from spade.codec import pack_ids, unpack_ids
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
        said = await self._ask(source, admitted.first_observation, seed)
        self._session.gauges["judgements"] += 1
        self._session.gauges["judgements_unread"] += said is None
        return said

    async def _ask(self, source: str, observation: str, seed: int) -> bool | None:
        config, tokenizer = self._session.config, self._session.tokenizer
        most = config.design.hint_max_tokens
        room = config.engine.context_tokens - most
        prompt = tokenizer.prompt_ids(question(source, observation), room)
        if len(prompt) > room:
            return None
        generated = await self._session.generate(pack_ids(prompt), most, TEMPERATURE, seed)
        return judgement(tokenizer.decode(unpack_ids(generated.ids).tolist()))
