"""A worked example of each form of world, as a designer sees it: small, complete, and admitted."""

COURSE = r"""
import random


class BoilerStartEnv:
    VALVES = ["black", "blue", "green", "red", "white"]

    def __init__(self, max_turns: int = 16):
        self.max_turns = max_turns
        self.turn = 0
        self.order = []  # hidden: the one order in which the valves open
        self.opened = 0
        self.jolts = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        self.order = random.Random(seed).sample(self.VALVES, 5)
        self.turn = self.opened = self.jolts = 0
        return self.view("Five valves start this boiler, in one order only. The fifth jolt cracks it."), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        valve = action.strip().lower()
        if valve not in self.VALVES:
            return self.view("That is no valve. Name one of those below."), 0.0, False, out_of_turns, {}
        early = self.order.index(valve) - self.opened
        if early < 0:
            happened = f"The {valve} valve is open already."
        elif early == 0:
            self.opened += 1
            happened = f"The {valve} valve opens and stays open."
        else:
            self.jolts += 1
            self.opened = 0
            happened = f"A jolt! Shut valves that had to come before {valve}: {early}. Now all five are shut."
        if self.opened == 5:
            return self.view("The boiler runs."), 1.0, True, False, {}
        if self.jolts == 5:
            return self.view("The boiler cracks."), 0.0, True, False, {}
        return self.view(happened), 0.15 * self.opened, False, out_of_turns, {}

    def view(self, happened: str) -> str:
        shown = " ".join(self.order[: self.opened]) or "none"
        return (
            f"{happened}\nTurn {self.turn} of {self.max_turns}. Open: {shown}. Jolts: {self.jolts}.\n"
            "Open one valve a turn; end your reply with \\boxed{valve}.\n"
            "Actions: black blue green red white"
        )

    def solution(self) -> list[str]:
        return list(self.order)

    def close(self) -> None:
        pass
"""

ANSWER = r'''
import random


class ThreeBellsEnv:
    def __init__(self, max_turns: int = 1):
        self.periods = []
        self.minutes = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.periods = sorted(rng.sample(range(4, 16), 3))
        self.minutes = rng.randint(2000, 9000)
        first, second, third = self.periods
        return (
            f"Three bells ring every {first}, {second} and {third} minutes; they have just rung together.\n"
            f"In how many of the next {self.minutes} minutes do exactly two of them ring?\n"
            "End your reply with \\boxed{number}.\n"
            "Actions: 0..9999"
        ), {}

    def count(self, bells: int) -> int:
        """Minutes in which exactly so many bells ring."""
        rings = [sum(minute % period == 0 for period in self.periods) for minute in range(1, self.minutes + 1)]
        return rings.count(bells)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        text = action.strip()
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            return "A whole number of minutes was expected.", 0.0, True, False, {}
        right, all_three = self.count(2), self.count(3)
        if int(text) == right:
            return "Right.", 1.0, True, False, {}
        if int(text) == right + all_three:
            return "You counted the minutes in which all three ring as well.", 0.5, True, False, {}
        if int(text) == right + 3 * all_three:
            return "You counted a minute in which all three ring once for each pair of them.", 0.5, True, False, {}
        return "No. Look at what two bells have in common, then at what all three have.", 0.0, True, False, {}

    def solution(self) -> list[str]:
        return [str(self.count(2))]

    def close(self) -> None:
        pass
'''
