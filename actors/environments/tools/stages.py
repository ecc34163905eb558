"""Admit or reject a program with tools. It passes named stages one after the other, and each may reject it.

docs/tools.md ("Admission") says what each stage checks. `budget`, `repeatable` and `effect` are in
`actors/environments/stages.py`.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle, takewhile

import trio
from msgspec import structs

from actors.environments.gifts import find_common_sequence
from actors.environments.probes import Transcript
from actors.environments.stages import Admission
from actors.environments.tools.evidence import (
    MOST_LEAVES,
    VALUE_CHARACTERS,
    collect_leaves,
    describe_move,
    find_joined_values,
    find_suspects,
    find_values,
    render_play,
    write_values,
)
from actors.environments.tools.guesses import RandomCaller, read_tools
from actors.environments.tools.nonsense import make_pointless_calls, make_refused_calls
from actors.environments.trials import SOLVED_PLAYS, Policy, Probing, RejectedError, Trials, make_policy
from actors.sandbox import Sandbox
from actors.sandbox.host import OTHER_KIND, PLAYS
from actors.sandbox.process import ChildProcess
from actors.sandbox.wire import Act, Inspect, InspectReply, SolutionReply, Solve
from actors.text.actions import can_say
from actors.text.conversation import Move
from actors.text.toolcalls.notation import write_call
from spade.config import Play, ToolUse
from spade.config import Sandbox as Limits
from spade.protocol import MOST_VALUES, Observed, ToolCall, Verdict
from spade.text import as_line

FRESH = 3
"""Number of instances that the stage `gate` checks in their fresh state."""
REASON_CHARACTERS = 200
"""The largest number of characters that a reason quotes from a program's text."""
DONE = Move("done")


def make_request(move: Move) -> Act:
    """Return the request that sends a move to a program with tools."""
    return Act(tuple((call.name, call.arguments) for call in move.calls), move.action)


class ToolAdmission(Admission[Move]):
    """The admission of one program with tools."""

    loading = ("parse", "class", "interface", "construct", "schema")
    nothing = Move("")

    def __init__(self, sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play, tools: ToolUse) -> None:
        trials = Trials(sandbox, source, limits, play.max_turns, make_request, "tools")
        super().__init__(Probing(trials, seed, play))
        self.free_share = tools.free_share
        self.openings: list[tuple[Observed, InspectReply]] = []
        self.solutions: list[tuple[Transcript[Move], Sequence[str]]] = []
        self.values: tuple[str, ...] = ()

    async def begin(self) -> None:
        self.openings.append(await self.fresh(self.probing.seed(0)))

    def order(self) -> Sequence[Callable[[], Awaitable[str]]]:
        few, many = (self.episode, self.gate, self.solution, self.garbage), (self.random, self.constant)
        return (*few, *many, self.budget, self.repeatable, self.effect)

    def describe(self, action: Move) -> str:
        return describe_move(action)

    async def verdict(self) -> Verdict:
        plays = [play for play, _ in self.solutions]
        # In a thread, since long texts take time.
        found = await trio.to_thread.run_sync(find_suspects, plays)
        transcript = render_play(plays[0]) if plays else ""
        return structs.replace(await super().verdict(), suspects=found, values=self.values, replayed=transcript)

    # ------------------------------------------------------------ plays and inspected states

    async def probe(self, seed: int, policy: Policy[Move]) -> Transcript[Move]:
        """Play and keep the transcript. Raises RejectedError if the kept transcripts take too much memory."""
        transcript = await self.trials.play(seed, policy, PLAYS)
        self.probing.keep(transcript)
        return transcript

    async def inspect(self, process: ChildProcess) -> InspectReply:
        answer = await self.trials.ask(process, Inspect())
        if not isinstance(answer, InspectReply) or len(answer.criteria) != len(answer.instructions):
            raise RejectedError(OTHER_KIND.detail)
        return answer

    async def fresh(self, seed: int) -> tuple[Observed, InspectReply]:
        """Return the answer to `reset` and the inspected state after it."""
        async with self.trials.opened(seed, PLAYS) as (process, first):
            return first, await self.inspect(process)

    # ------------------------------------------------------------ the stages

    async def episode(self) -> str:
        """Check that `reset` answers under further seeds."""
        self.openings += [await self.fresh(self.probing.seed(index)) for index in range(1, FRESH)]
        first, inspected = self.openings[0]
        return f"{len(inspected.instructions)} instructions, {len(read_tools(first))} tools"

    async def gate(self) -> str:
        """Check that criteria can be read on the fresh state and do not change it, and that few of them hold."""
        looks = [inspected for _, inspected in self.openings]
        most = max(len(look.criteria) for look in looks)
        for place in range(most):
            seen = [look.criteria[place] for look in looks if place < len(look.criteria)]
            if all(each.error for each in seen):
                error = seen[0].error[:REASON_CHARACTERS]
                raise RejectedError(f"the criterion of instruction {place + 1} raises on the fresh state: {error}")
            if any(each.changes for each in seen):
                raise RejectedError(f"the criterion of instruction {place + 1} changes the state")
        for look in looks:
            met = [str(place) for place, each in enumerate(look.criteria, 1) if each.met]
            if len(met) > self.free_share * len(look.criteria):
                some = f"instruction {met[0]}" if len(met) == 1 else f"instructions {' and '.join(met)}"
                verb = "is" if len(met) == 1 else "are"
                raise RejectedError(f"{some} of {len(look.criteria)} {verb} met before anything is done")
        return ""

    async def solution(self) -> str:
        """Check that the calls of `solution()` win. They are played in another process."""
        for index in range(SOLVED_PLAYS):
            seed = self.probing.seed(index)
            calls = await self.solved(seed)
            async with self.trials.opened(seed, PLAYS) as (process, first):
                moves = [*(Move("", (call,)) for call in calls), DONE]
                play = await self.trials.finish(process, seed, first, make_policy(moves, self.nothing))
                self.probing.keep(play)
                after = await self.inspect(process)
            self.solutions.append((play, after.instructions))
            self.check_solution(play, after)
        await self.check_values()
        return f"{len(self.solutions[0][0].actions)} turns"

    async def solved(self, seed: int) -> list[ToolCall]:
        """Return the calls that `solution()` lists.

        Raises RejectedError if it lists none or too many, or a call that no player can send.
        """
        async with self.trials.opened(seed, PLAYS) as (process, _):
            solved = await self.trials.ask(process, Solve())
        calls = solved.calls if isinstance(solved, SolutionReply) else ()
        if not calls:
            raise RejectedError("the solution lists no calls, so nothing proves that the environment can be won")
        unsayable = next((arguments for _, arguments in calls if not can_say(arguments)), "")
        if unsayable:
            raise RejectedError(
                f"no player can send the solution's call with a mark of thinking: {as_line(unsayable, 80)}"
            )
        turns = len(calls) + 1
        if turns > self.trials.max_turns:
            raise RejectedError(f"the solution and `done` take {turns} turns, but a play has {self.trials.max_turns}")
        return [ToolCall(name, arguments) for name, arguments in calls]

    def check_solution(self, play: Transcript[Move], after: InspectReply) -> None:
        """Raise RejectedError if the solution does not win, or if too many instructions were met as soon as they were
        given."""
        count = len(after.instructions)
        if not play.won(self.probing.win_return):
            refused = (
                f"; call {turn} is refused: {result.text[:REASON_CHARACTERS]}"
                for turn, answer in enumerate(play.answers)
                for result in answer.results
                if result.refused
            )
            done = f"{play.answers[-1].done} of {count} instructions are done after its calls"
            raise RejectedError(f"the solution does not win: {done}{next(refused, '')}")
        if after.free > self.free_share * count:
            raise RejectedError(f"{after.free} of {count} instructions are met already when they are given")

    async def check_values(self) -> None:
        """Keep the values that a hint must not state. Raises RejectedError if they are too many.

        The solution may solve every instance by calls with the same values. Then the values of the first instance's
        calls are also kept, joined to one text.
        """
        plays, asked = [play for play, _ in self.solutions], [instructions for _, instructions in self.solutions]
        if any(len(collect_leaves(play.actions)) > MOST_LEAVES for play in plays):
            raise RejectedError(f"the calls of the solution have more than {MOST_LEAVES} values")
        found = await trio.to_thread.run_sync(find_values, plays, asked)
        if len(found) > MOST_VALUES:
            raise RejectedError(
                f"the solution uses more than {MOST_VALUES} values that no request and no schema states"
            )
        sequence = find_common_sequence([[write_values(move.calls[0]) for move in play.actions[:-1]] for play in plays])
        joined = await trio.to_thread.run_sync(find_joined_values, plays)
        values = (sequence[:VALUE_CHARACTERS], *found, *joined) if sequence else (*found, *joined)
        self.values = values[:MOST_VALUES]

    async def garbage(self) -> str:
        """Check that refused calls change nothing, that meaningless calls meet no criterion, and that no call
        raises."""
        seed, (opening, look) = self.probing.seed(0), self.openings[0]
        tools = read_tools(opening)
        async with self.trials.opened(seed, PLAYS) as (process, _):
            before = await self.inspect(process)
            for move in (DONE, Move("", tuple(make_refused_calls(tools)))):
                await self.trials.observe(process, make_request(move))
            after = await self.inspect(process)
        if (before.state, before.done) != (after.state, after.done):
            raise RejectedError("refused calls change the state")
        free = len(list(takewhile(lambda criterion: criterion.met, look.criteria)))
        # An instruction may ask for a call that looks meaningless, for example to clear a text. The solution has such a
        # call, so it does not count as meaningless.
        moves_that_solve = [move for play, _ in self.solutions for move in play.actions]
        solving = {write_call(call.name, call.arguments) for move in moves_that_solve for call in move.calls}
        calls = [
            (call, means_nothing and write_call(call.name, call.arguments) not in solving)
            for call, means_nothing in make_pointless_calls(tools, self.probing.rng)
        ]
        for meaning_nothing in (True, False):
            moves = [Move("", (call,)) for call, means_nothing in calls if means_nothing is meaning_nothing]
            while moves:
                play = await self.probe(seed, make_policy(moves, self.nothing))
                for move, answer in zip(play.actions, play.answers[1:], strict=True):
                    if meaning_nothing and answer.done > free:
                        raise RejectedError(
                            f"a meaningless call meets instruction {answer.done}: {describe_move(move)}"
                        )
        return ""

    async def random(self) -> str:
        """Check that random calls seldom win."""

        def play(seed: int) -> Awaitable[Transcript[Move]]:
            return self.probe(seed, RandomCaller(self.probing.rng).act)

        return await self.seldom_wins("random play", [], self.refused_share, play)

    async def constant(self) -> str:
        """Check that calling all tools in turn, always with the same arguments, seldom wins.

        These plays and the solutions also show whether the seed matters.
        """
        opening, _ = self.openings[0]
        guesser = RandomCaller(self.probing.rng)
        guesser.hear(opening)
        calls = [guesser.call(tool) for tool in guesser.tools]
        plays: list[Transcript[Move]] = []

        def play(seed: int) -> Awaitable[Transcript[Move]]:
            turns = cycle(calls)

            def act(seen: Observed) -> Move:
                return DONE if seen.done >= seen.instructions else Move("", (next(turns),))

            return self.probe(seed, act)

        result = await self.seldom_wins("each tool with the same arguments", plays, self.refused_constant, play)
        solved = {(play.actions, play.answers) for play, _ in self.solutions}
        self.seed_sensitive = len(solved) > 1 or len({each.answers for each in plays}) > 1
        return result
