"""Suites from their items to the verdict: the prompt, a model's whole text, the answer read in it, the sandbox."""

import base64
import json
import pickle
import re
import zlib

import pytest
import trio

from actors.sandbox import open_sandbox
from actors.sandbox.wire import Solve
from actors.suites import SUITES
from spade.protocol import Faulted
from tests.suites.plays import asked, limits, program

ROWS = 10


async def played(sandbox, name, items, texts):
    """The return of each text of each item; `texts` makes them of the prompt that a model reads."""
    suite, found = SUITES[name], {}
    chat_format = suite.chat_formats(suite.protocol("short"), None)()

    async def one(item, place):
        episode = f"{item.name} {place}"
        first = await sandbox.open(episode, item.program, item.seed, 1, suite.needs)
        assert not isinstance(first, Faulted), first
        (message,) = chat_format.open(first, None).messages
        text = texts[item.name](message.content)[place]
        last = await sandbox.step(episode, 1, chat_format.act(text).action)
        assert not isinstance(last, Faulted), last
        assert last.terminated
        found[item.name, place] = last.reward

    async with trio.open_nursery() as nursery:
        for item in items:
            for place in range(2):
                nursery.start_soon(one, item, place)
    return found


async def judged(sandbox, name, folder, rows, texts):
    """The same of ten made-up rows, whose first text is right and whose second is wrong."""
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = SUITES[name].items(SUITES[name].protocol("short"), file)
    assert len(items) == ROWS
    said = dict(zip((item.name for item in items), texts, strict=True))
    found = await played(sandbox, name, items, said)
    assert found == {(item.name, place): 1 - place for item in items for place in range(2)}


async def test_ten_rows_of_aime_are_judged_by_the_last_box(sandbox, tmp_path):
    numbers = [0, 7, 25, 42, 70, 204, 336, 480, 588, 999]
    rows = [{"problem": f"Which number is {number}?", "answer": number} for number in numbers]
    forms = r"\boxed{1}, no, \boxed{%s}", r"$\boxed{0%s}$.", r"<think>\boxed{3}</think>So it is \boxed{%s.0}"
    texts = [
        lambda _, number=number, form=forms[place % 3]: (
            form % number,
            rf"\boxed{{{number}}} or \boxed{{{number + 1}}}",
        )
        for place, number in enumerate(numbers)
    ]
    await judged(sandbox, "aime25", tmp_path, rows, texts)


async def test_ten_rows_of_gpqa_are_judged_by_the_letter(sandbox, tmp_path):
    options = {"Correct Answer": "true", **{f"Incorrect Answer {n}": f"false {n}" for n in (1, 2, 3)}}
    rows = [{"Record ID": f"rec{n}", "Question": f"Which, {n}?"} | options for n in range(ROWS)]

    def texts(prompt):
        shown = {option: letter for letter, option in re.findall(r"^([A-D])\. (.*)$", prompt, re.MULTILINE)}
        return rf"It is true, so \boxed{{\text{{{shown['true']}}}}}.", rf"\boxed{{{shown['false 2']}}}"

    await judged(sandbox, "gpqa-diamond", tmp_path, rows, [texts] * ROWS)


SQUARE = "print(int(input()) ** 2)"
ADD = "class Solution:\n    def add(self, a: List[int], b: int):\n        return sum(a) + b"
WRONG = [
    "while True: pass",
    f"import os\nos.fork()\n{SQUARE}",
    f"{SQUARE}\nopen('/etc/passwd').read()[0]",
    "import sys\nsys.exit(0)",
    "while True: print('x' * 10**6)",
    "print(4)",
    "class Solution:\n    def add(self, a, b): return sum(a)",
    "class Equal:\n    def __eq__(self, other): return True\ndef add(a, b): return Equal()",
    "import gc\nprint([each for each in gc.get_objects() if type(each) is list and 'output' in str(each)])",
    "add(",
]


def problem(number, tests, **metadata):
    """A row: the first test is public, the others are hidden as the set hides them."""
    kind = "functional" if metadata else "stdin"
    public, *private = [{"input": given, "output": wanted, "testtype": kind} for given, wanted in tests]
    hidden = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(private)))).decode()
    return {
        "question_id": f"made_{number}",
        "question_content": f"Do it, {number}.",
        "starter_code": "class Solution:" if metadata else "",
        "public_test_cases": json.dumps([public]),
        "private_test_cases": hidden,
        "metadata": json.dumps(metadata),
    }


async def test_ten_rows_of_livecodebench_are_judged_by_their_tests(sandbox, tmp_path):
    squares = [("2\n", "4\n"), ("3\n", "9\n"), ("12\n", "144\n")]
    sums = [("[1, 2]\n3", "6"), ("[]\n1", "1")]
    methods = {place for place, code in enumerate(WRONG) if "add" in code}
    rows = [
        problem(place, sums, func_name="add") if place in methods else problem(place, squares) for place in range(ROWS)
    ]

    def fenced(code):
        return f"Reasoning.\n```python\nprint('a draft')\n```\nSo:\n```python\n{code}\n```"

    texts = [
        lambda _, right=ADD if place in methods else SQUARE, wrong=wrong: (fenced(right), fenced(wrong))
        for place, wrong in enumerate(WRONG)
    ]
    await judged(sandbox, "livecodebench-v6", tmp_path, rows, texts)


@pytest.mark.parametrize(("name", "datasets"), [("reasoning-gym-nano", 6), ("reasoning-gym-transfer", 12)])
async def test_items_of_a_library_are_won_by_its_reference_and_lost_by_nonsense(sandbox, name, datasets):
    suite = SUITES[name]
    chosen = suite.items(suite.protocol("short"))[::8]
    assert len({item.category for item in chosen}) == datasets
    texts = {}
    for item in chosen:
        async with asked(sandbox, item.program, item.seed) as (_, ask):
            (answer,) = (await ask(Solve())).actions
        texts[item.name] = lambda _, answer=answer: (rf"\boxed{{{answer}}}", r"\boxed{nonsense}")
    found = await played(sandbox, suite.name, chosen, texts)
    assert found == {(item.name, place): 1 - place for item in chosen for place in range(2)}


async def questions(sources, *libraries):
    """The first observation of each program, on its seed, from a sandbox of its own."""
    async with open_sandbox(limits(*libraries)) as sandbox:
        asked = {name: await sandbox.open(name, source, seed, 1) for name, (source, seed) in sources.items()}
    return {name: first.observation for name, first in asked.items()}


async def test_an_item_asks_the_same_question_at_each_start():
    """Three data sets of the hard suite iterate over sets of strings, and so does a program of one's own."""
    suite = SUITES["reasoning-gym-hard"]
    ordered = "isomorphic_strings", "polynomial_multiplication", "ransom_note"
    items = [item for item in suite.items(suite.protocol("paper")) if item.name.startswith(ordered)]
    assert len(items) == 12
    sources = {item.name: (item.program, item.seed) for item in items}
    words = program("ReasoningGymEnv", dataset="gcd") + "\n    def pose(self, seed): return str(set('abcdefghijklm'))"
    sources["words"] = words, 1
    lake = program("GymnasiumTextEnv", environment="FrozenLake-v1", parameters={"map_name": None})
    sources |= {"lake": (lake, 1), "other lake": (lake, 2)}
    first, again = [await questions(sources, suite.library, "gymnasium") for _ in range(2)]
    assert first == again
    assert first["lake"] != first["other lake"]
