"""The fixed parts of the prompts: the skills, the interface, and the rules of a sound world."""

SKILLS = {
    "mathematical reasoning": (
        "working with quantities, equations, number properties and estimates until an exact conclusion holds"
    ),
    "logical deduction": "combining facts and rules, keeping track of what is still possible, and ruling out the rest",
    "spatial reasoning": "keeping positions, directions, shapes and their transformations in mind",
    "pattern recognition": "seeing the regularity behind examples and carrying it to a case not seen before",
    "optimization": "finding the best, or a good enough, choice under limits of budget, time or capacity",
    "causal inference": "telling cause from coincidence by acting on a system and watching what follows",
}
"""Each skill's meaning."""

DESIGNER = (
    "You design small worlds that teach a reasoning agent. Each is a complete Python program that runs unattended. "
    "You write correct code, and you care that winning takes the skill in question and nothing else will do."
)

INTERFACE = r'''
Write exactly this interface; `step` may be built as it is here:

```python
import random  # whatever the program uses is imported by the program


class DescriptiveNameEnv:
    def __init__(self, max_turns: int = {max_turns}):
        """Give every attribute a value. Whoever runs the world may choose another `max_turns`."""

    def reset(self, seed: int) -> tuple[str, dict]:
        """Start the instance that belongs to `seed`; return the first observation and info."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Carry out one action; return observation, reward, terminated, truncated, info."""
{step}

    def solution(self) -> list[str] | str:
        """May be left out. The actions, in order, that win the instance of the latest reset, each as `step` takes
        it; or, where they cannot be listed, a text that describes how to win."""

    def close(self) -> None:
        """May be left out. Let go of what is held."""
```
'''

COURSE_STEP = r"""
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        command = self.read(action)  # None where the text is no command
        if command is None:
            return self.view("what was expected"), 0.0, False, out_of_turns, {}
        happened = self.carry_out(command)  # changes the state, and says what came of it
        if self.won():
            return self.view(happened), 1.0, True, False, {}
        if self.lost():
            return self.view(happened), self.progress(), True, False, {}
        return self.view(happened), self.progress(), False, out_of_turns, {}
"""

ANSWER_STEP = r"""
        answer = self.read(action)  # None where the text is no answer
        if answer is None:
            return "what was expected", 0.0, True, False, {}
        if answer == self.answer:
            return "Right.", 1.0, True, False, {}
        return self.critique(answer), self.partly_right(answer), True, False, {}
"""

PROGRAM = r"""
The program:
- Everything is in one class that depends on no other file. Its name says what the world is about and ends in Env.
- Import the standard library only; `math_verify` is there as well, where mathematical answers have to be compared.
- There are no files, no network, no threads, no clock, no sleeping and no `input()`.
- `__init__` sets every attribute the class ever uses, so that nothing is missing when `reset` is called.
- No attribute is called `solution`, nor like any other method: it would hide the method.
- All chance comes from `random.Random(seed)`, made in `reset`. Another seed gives another instance (other values,
  places or rules), the same seed always the same one.
- `info` is a dict each time, if only an empty one. The reward is a float.
- No action raises an exception. Text that is empty, misspelt, out of range or of the wrong kind gets an observation
  that says what is expected, with reward 0.
- Before each division make sure that the divisor is not zero.
- In an f-string write each literal brace twice, and no backslash between the braces of an expression: work the value
  out on a line before. In an ordinary string `\b` is a control character: to show \boxed write the backslash twice or
  use a raw string.
- Where `solution()` lists actions, it works them out from the hidden state of this instance; they are replayed and
  have to win.
"""

PLAYER = r"""
What the player sees and says:
- The player ends each reply with one action in \boxed{...}. `step` receives what is inside the braces, without the
  box, or "" if there was none.
- Each observation shows the state as far as the player may know it, what the last action did, which actions there
  are, and that the reply must end with \boxed{action}.
- The last line of each observation lists the actions in one of three ways: `Actions: look turn_left weigh:2:5`, with
  single spaces between them; `Actions: 1..20` for whole numbers; or, if an action has spaces in it,
  `Actions: go north | ask Anna | wait`. Each stands there as `step` takes it: no box, no quotes, no comma behind it, no
  comment, no placeholder. If there are too many, list a handful that are valid.
"""

COURSE = r"""
The world:
- It goes on over many turns. An action is a command that changes the state or finds something out, one for each
  turn; it is never the final answer to a riddle.
- Something that matters is hidden at the start and comes to light only by acting: the player has to explore,
  remember and plan.
- The goal takes a sequence of at least {steps} well-chosen actions. No line of play reaches it within three turns,
  not even a lucky one.
- `max_turns` will be the default you give it, or {max_turns} if that is less. Choose the default for your world: enough
  for a good player to explore and then to reach the goal, and no more, since each further turn is one more guess.
- Random actions, or one action again and again, should lose nearly always.
- The reward tells how far the player has come, between 0 and 1: less than 1.0 until the goal is reached, 1.0 at the
  goal and nowhere else. Let it take several values on the way.
- `terminated` is True at the goal, and where the world is lost for good by a mistake (then with the reward reached so
  far, under 1.0).
- Running out of turns is neither: on the turn that uses up `max_turns` without an end, `truncated` is True and
  `terminated` False. Such a play is worth nothing to the player, whatever its reward.
"""

ANSWER = r"""
The world:
- It is over after one action, whatever `max_turns` says: the player reads a problem and gives its answer.
- All that is needed to derive the answer is in the first observation, and deriving it takes at least three steps
  that build on each other.
- There are so many possible answers that a guess is right less than once in a hundred times.
- The reward is 1.0 for the right answer and nowhere else; an answer that is partly right earns some of it.
  `terminated` is True after the answer.
- The line of actions shows the form of an answer: a range, or a few examples of which none is right.
- Compare answers by value, not by spelling. The closing observation says what was wrong about the answer, in
  particular, and never what the right one was.
"""

EXAMPLE = (
    "Here is a small world that keeps these rules. It shows the form alone: give yours another setting, another "
    "mechanism and another rule, and let it ask for more."
)

LAST = (
    "Think first about the hidden state, the rule, and how each kind of careless play fails. Then trace two courses "
    "through your `reset` and `step`, turn by turn, with the observation, the reward and both flags: one that wins and "
    "one that loses. Mend what does not come out as it should. Then write the whole program in one ```python block, "
    "and nothing after it."
)

HINTER = (
    "You coach a player who is about to enter a small world. You have read its program; the player never sees it and "
    "does not know the values drawn for this instance."
)

HINT = r"""
Write one hint of two to four sentences:
- the one insight or strategy that makes the difference in this world, true for every seed;
- the form in which an action has to be written.
Do not give the answer away: no hidden value, no winning sequence, nothing that holds for one instance only. Do not
speak of the program or its code. Reply with the hint alone.
"""

REVIEWER = (
    "You review small worlds before a player enters them. You read the program and the first text that the player is "
    "shown, and you look for errors that running it does not show."
)

REVIEW = r"""
Decide whether the program does what it tells the player. It does not if one of these holds:
- the rule that it computes is not the rule that its texts state, or a computation is wrong for some seed;
- a player who does what the texts ask, in any sensible way, is not rewarded for it, or one who does not is;
- a text shows the answer itself, so that nothing is left to find out;
- for some seed there is no way to win.
Being hard is no fault. Go through one instance by hand, then name what is wrong in one or two sentences, or say that
nothing is. Then end your reply with \boxed{yes} if the program is sound, or with \boxed{no}.
"""

GAME = r"""
You play a text game in turns. Each message shows what you see after your last action.
The game ends after turn {max_turns} at the latest, some games sooner; one that you have not brought to its end by then
earns nothing.
Reason about it first: what you know, what is still hidden, and what each possible action would bring or tell you.
Then end your reply with one action in the form \boxed{action}. The last box counts, and only what is inside it; you
get one action each turn.
"""

ONE_ANSWER = r"""
You are asked a question. A wrong answer ends the play: you get no second try.
Reason about it first, step by step, and check what you find.
Then end your reply with the answer in the form \boxed{answer}. The last box counts, and only what is inside it.
"""
