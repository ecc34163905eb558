"""Verdicts of RLVE's scorers on right answers, where the paper's release has mended them.

A process of its own, since the library reseeds generators. It prints, by problem, the verdict as we have the problem,
and the one after `json`, where its parameters went through JSON, or of the other `way` to reward.
"""

import copy
import itertools
import json
import random

from actors.sandbox.inside.libraries.stand_ins import put_stand_ins

with put_stand_ins("torch"):
    from Gym.environments import identifier2environment as PROBLEMS  # noqa: N812
    from Gym.parameter_controllers import identifier2controller as CONTROLLERS  # noqa: N812

MARKS = "<answer>", "</answer>"


def posed(name, **rewarded):
    problem = PROBLEMS[name](answer_markers=MARKS, **rewarded)
    problem.parameter = copy.deepcopy(CONTROLLERS[name]().get_parameter_list()[0])
    random.seed(1)
    problem._generate()
    return problem


def verdict(problem, answer):
    return bool(problem.verifier(answer.join(MARKS))["accuracy"])


def right(problem, chosen):
    """A right answer: the reference, or of a problem with points the first choice that is right."""
    if not chosen:
        return str(problem.parameter["reference_answer"])
    points = range(2 * problem.parameter["N"])
    words = (" ".join(map(str, choice)) for size in chosen for choice in itertools.combinations(points, size))
    return next(answer for answer in words if verdict(problem, answer))


CHOSEN = {
    "Cinema": (),
    "QuadMagicItems": (),
    "LargestConvexPolygon": (3, 4, 5, 6),
    "LargestRectangle_AmongPoints": (4,),
}
WAYS = {
    "PowerCycle": ("rewarding_strategy",),
    "FBI_BinaryTree": ("rewarding_strategy",),
    "SkaRockGarden": ("rewarding_strategy_perimeter", "rewarding_strategy_cost"),
    "SmallestBinaryMultiple": ("rewarding_strategy",),
}
found = {"json": {}, "way": {}}
for name, chosen in CHOSEN.items():
    problem = posed(name)
    answer = right(problem, chosen)
    own = verdict(problem, answer)
    problem.parameter = json.loads(json.dumps(problem.parameter))
    found["json"][name] = [own, verdict(problem, answer)]
for name, settings in WAYS.items():
    problem, other = posed(name), posed(name, **dict.fromkeys(settings, "gold=answer"))
    answer = right(problem, ())
    found["way"][name] = [verdict(problem, answer), verdict(other, answer)]
print(json.dumps(found))
