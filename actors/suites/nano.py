"""Suites of the nano worlds: programs with parameters that no demonstration uses."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from actors.corpus import load
from actors.nano.tools.base import MOST_TURNS
from actors.nano.worlds import WORLDS
from actors.suites.suite import ChatFormats, Suite
from actors.text.conversation import CallFormat, ChatFormat, ToolChatFormat
from actors.text.toolcalls import DIALECTS, find_dialect
from spade.config import DomainName, ProtocolName
from spade.errors import RunError
from spade.evaluations import Protocol, Sampling, SuiteItem
from spade.protocol import MOST_CALLS
from spade.seeds import INSTANCE_MASK, derive
from spade.tokens import Tokenizer

_SEED = 0


def _make_suite(
    name: str,
    domain: DomainName,
    max_tokens: int,
    turns: int,
    draws: Mapping[ProtocolName, int],
    chat_formats: ChatFormats,
) -> Suite:
    world = WORLDS[domain]

    @cache
    def draw(count: int) -> tuple[SuiteItem, ...]:
        return tuple(
            SuiteItem(
                f"{each.family.name}/{number}",
                f"level {each.knobs.level}" if world.by_level else each.skill,
                each.source,
                derive(b"", "evaluation: instance", _SEED, number) & INSTANCE_MASK,
            )
            for number, each in enumerate(world.unseen(_SEED, load("builtin", domain), count))
        )

    def read(protocol: Protocol, _: Path | None) -> list[SuiteItem]:
        return list(draw(protocol.draws))

    def protocol(of: ProtocolName) -> Protocol:
        sampling = Sampling(temperature=1.0, max_tokens=max_tokens)
        # The nano world words its own messages, so this prompt is only recorded.
        return Protocol(
            name=of, prompt="{problem}", sampling=sampling, samples=1, grading="box", turns=turns, draws=draws[of]
        )

    return Suite(name, {of: protocol(of) for of in draws}, read, chat_formats=chat_formats)


def _make_tool_chat_formats(_: Protocol, tokenizer: Tokenizer) -> Callable[[], ChatFormat]:
    """Return a function that makes chat formats in the checkpoint's own call format.

    Raises RunError if the model cannot call tools.
    """
    try:
        dialect = find_dialect(tokenizer, DIALECTS, "this model")
    except RunError as error:
        raise RunError(f"suite nano-tools: {error}") from None
    call_format = CallFormat(dialect, tokenizer.opens_thought())
    return lambda: ToolChatFormat(WORLDS["tools"].profile.play, call_format, MOST_CALLS)


# Enough samples for a standard error of a mean under 0.015. In games, each skill is played equally often at each level.
NANO = _make_suite("nano", "games", 24, 12, {"paper": 1_152, "short": 36}, lambda *_: WORLDS["games"].chat_format)
NANO_TOOLS = _make_suite("nano-tools", "tools", 64, MOST_TURNS, {"paper": 1_152, "short": 32}, _make_tool_chat_formats)
