"""The ledger's counts, computed anew from all of its records."""

from replay.ledger.ledger import Ledger
from replay.ledger.state import State


def chunks(state: State):
    """(environment, chunk, its plays with the unhinted first), in the order the chunks opened."""
    found = []
    for environment in state.environments.values():
        for chunk in environment.chunks:
            plays = [p for p in state.plays.values() if (p.environment, p.chunk) == (environment.id, chunk.index)]
            found.append((environment, chunk, sorted(plays, key=lambda play: (play.hinted, play.index))))
    return sorted(found, key=lambda each: (each[1].opened_at, each[0].id))


def in_flight(ledger: Ledger) -> tuple[int, int]:
    """Sequences of the chunks in flight that are within the lag bound, and the longest lag among them."""
    state = ledger.state
    sequences, oldest = 0, 0
    for _, chunk, plays in chunks(state):
        if not chunk.begun or chunk.scored_at is not None:
            continue
        unhinted = [play for play in plays if not play.hinted]
        versions = [play.version for play in unhinted if play.state in ("leased", "finished")]
        step = min((state.steps[version] for version in versions), default=state.published_step)
        lag = state.lag(state.counters.taken_step + 1, step)
        if lag <= state.config.learner.agent_lag:
            sequences += len(unhinted)
            oldest = max(oldest, lag)
    return sequences, oldest


def lease_order(ledger: Ledger) -> list[str]:
    """Ids of the plays that may be leased now, in order: of chunks begun, then of those admitted; drawn within each."""
    found = chunks(ledger.state)
    begun = [plays for _, chunk, plays in found if chunk.begun]
    fresh = [plays for _, chunk, plays in found if not chunk.begun][: ledger.allowance().chunks]

    def place(play) -> int:
        return ledger.state.seed("place", play.id)

    return [play.id for plays in begun + fresh for play in sorted(plays, key=place) if play.state == "open"]


def windows(state: State) -> dict[str, tuple[int, int, int]]:
    """Of each active environment: plays, voids, and plays that have ended."""
    found = {}
    for environment in state.environments.values():
        states = [play.state for play in state.plays.values() if play.environment == environment.id]
        found[environment.id] = (len(states), states.count("void"), states.count("void") + states.count("finished"))
    return found
