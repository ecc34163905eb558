"""Verdicts of RLVE's problems whose scorers tell tuples from lists: on their own parameters, and on those through JSON.

A process of its own, since the library reseeds generators. It prints {problem: [verdict, verdict through JSON]}.
"""

import copy
import itertools
import json
import random

from actors.sandbox.inside.libraries.stand_ins import standing_in

with standing_in("torch"):
    from Gym.environments import identifier2environment as PROBLEMS  # noqa: N812
    from Gym.parameter_controllers import identifier2controller as CONTROLLERS  # noqa: N812

MARKS = "<answer>", "</answer>"


def posed(name):
    problem = PROBLEMS[name](answer_markers=MARKS)
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


CASES = {
    "Cinema": (),
    "QuadMagicItems": (),
    "LargestConvexPolygon": (3, 4, 5, 6),
    "LargestRectangle_AmongPoints": (4,),
}
found = {}
for name, chosen in CASES.items():
    problem = posed(name)
    answer = right(problem, chosen)
    own = verdict(problem, answer)
    problem.parameter = json.loads(json.dumps(problem.parameter))
    found[name] = [own, verdict(problem, answer)]
print(json.dumps(found))
