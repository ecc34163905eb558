"""Measure how different the newest programs are. This runs in the evaluator's process and delays nobody."""

from functools import partial

import trio

from actors.play.session import Session
from actors.text.measures.diversity import Embedding, compute_vendi_share
from spade.protocol import Diversity

FEWEST = 2


class DiversityMeter:
    """Measures the diversity again and again. The gauge `diversities` counts the measurements."""

    def __init__(self, session: Session, embedding: Embedding) -> None:
        self._session = session
        self._settings = session.config.evaluation
        self._embedding = embedding
        session.gauges.update(diversities=0)

    async def work(self) -> None:
        """Make one measurement after the other until cancelled. Skips measurements of fewer than two programs."""
        due = 0
        while True:
            weights = await self._session.replay.weights_after(due)
            measured = await self._measure(weights.step)
            if measured is not None:
                await self._session.hand_in(partial(self._session.replay.measured_diversity, measured))
                self._session.gauges["diversities"] += 1
            due = weights.step + self._settings.every_steps

    async def _measure(self, step: int) -> Diversity | None:
        sources = await self._session.replay.newest_programs(self._settings.diversity_programs)
        if len(sources) < FEWEST:
            return None
        began = trio.current_time()
        # A cancellation abandons the thread, because an embedding model may take minutes.
        share = await trio.to_thread.run_sync(self._measure_share, sources, abandon_on_cancel=True)
        return Diversity(step, share, len(sources), self._settings.embedding, trio.current_time() - began)

    def _measure_share(self, sources: tuple[str, ...]) -> float:
        return compute_vendi_share(self._embedding(sources))
