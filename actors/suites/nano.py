"""The nano worlds: programs from the side of their parameters that no demonstration is drawn from."""

from pathlib import Path

from actors.corpus import load
from actors.nano.worlds import WORLDS
from actors.suites.suite import Suite
from spade.config import DomainName
from spade.evaluations import Protocol, ProtocolName, Sampling, SuiteItem
from spade.seeds import INSTANCE_MASK, derive

_SEED = 0


def _suite(name: str, domain: DomainName, max_tokens: int) -> Suite:
    world = WORLDS[domain]

    def read(protocol: Protocol, _: Path | None) -> list[SuiteItem]:
        drawn = world.unseen(_SEED, load("builtin", domain), protocol.draws)
        return [
            SuiteItem(
                f"{each.family.name}/{number}",
                each.skill,
                each.source,
                derive(b"", "evaluation: instance", _SEED, number) & INSTANCE_MASK,
            )
            for number, each in enumerate(drawn)
        ]

    def protocol(of: ProtocolName, draws: int) -> Protocol:
        sampling = Sampling(temperature=1.0, max_tokens=max_tokens)
        # The talk is the world's own; the prompt stands here to be recorded.
        return Protocol(name=of, prompt="{problem}", sampling=sampling, samples=1, grading="box", turns=8, draws=draws)

    protocols: dict[ProtocolName, Protocol] = {"paper": protocol("paper", 256), "short": protocol("short", 32)}
    return Suite(name, protocols, read, talk=lambda _: world.talk())


NANO, NANO_TOOLS = _suite("nano", "games", 24), _suite("nano-tools", "tools", 64)
