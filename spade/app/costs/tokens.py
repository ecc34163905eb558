"""Compare the tokens that a run computed within a period with the tokens that it used. Pure."""

from collections.abc import Mapping

import msgspec

from spade.protocol import Role, Status

Counts = Mapping[str, float]


class TokenRow(msgspec.Struct, frozen=True):
    """One comparison of tokens."""

    what: str
    """Description of the counted tokens."""

    tokens: int
    """Number of the counted tokens."""

    of: int
    """The total of which `tokens` is a share."""

    def __str__(self) -> str:
        share = f"{self.tokens / self.of:>6.1%}" if self.of else f"{'–':>6}"
        return f"{self.what:<62}{self.tokens:>12,} {share}"


def compare_tokens(before: Status, after: Status) -> list[TokenRow]:
    """Compare tokens computed and used between two statuses of a run. Counts of a restarted process begin anew."""
    engine = _count(("engine", "endpoint"), before, after)
    learner = _count(("learner",), before, after)
    asked, kept, repeated, padding = (
        engine.get(name, 0) for name in ("prompt_tokens", "kept_tokens", "repeated_tokens", "padding_tokens")
    )
    sampled = engine.get("sampled_tokens", 0)
    computed = asked - kept + sampled
    traffic = [(status.traffic.delivered_tokens, status.traffic.delivered_sampled_tokens) for status in (before, after)]
    delivered, its_sampled = (_grow(*pair) for pair in zip(*traffic, strict=True))
    read = learner.get("read_tokens", 0)
    return [
        TokenRow("engines: tokens of prompts", asked, asked),
        TokenRow("  found in the key-value store", kept, asked),
        TokenRow("  computed", asked - kept, asked),
        TokenRow("  computed again, because the stored keys were of older weights", repeated, asked),
        TokenRow("engines: sampled tokens", sampled, computed),
        TokenRow("  handed in by agents and designers", its_sampled, sampled),
        TokenRow("engines: padding of attention, beside all computed tokens", padding, computed),
        TokenRow("handed in: tokens of trajectories, read and sampled", delivered, computed),
        TokenRow("learner: tokens of sequences", read, read),
        TokenRow("  computed, with each shared beginning once", learner.get("computed_tokens", 0), read),
        TokenRow("  trained", learner.get("trained_tokens", 0), read),
    ]


def _count(roles: tuple[Role, ...], before: Status, after: Status) -> dict[str, int]:
    """Return by how much each gauge grew, summed over the processes of these roles."""
    old = {(process.name, process.pid): process.gauges for process in before.processes}
    sums: dict[str, int] = {}
    for process in after.processes:
        if process.role in roles:
            its_old = old.get((process.name, process.pid), {})
            for name, value in process.gauges.items():
                sums[name] = sums.get(name, 0) + round(value - its_old.get(name, 0))
    return sums


def _grow(before: int, after: int) -> int:
    """Return the growth of a count that begins anew when its process restarts."""
    return after - before if after >= before else after
