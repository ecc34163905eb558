"""Made-up rules and records."""

from spade.evaluations import Protocol, Rules, SampleRecord, SampleSchedule, Sampling, sample_seed

PROTOCOL = Protocol(
    name="paper",
    prompt="{problem}\nAnswer in \\boxed{}.",
    sampling=Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=100),
    samples=3,
    grading="box",
)
RULES = Rules(
    suite="sums",
    policy="ab" * 16,
    seed=0,
    protocol=PROTOCOL,
    items=4,
    items_digest="cd" * 16,
    libraries={"reasoning-gym": "0.1.23"},
)
SCHEDULED = SampleSchedule({"a": "algebra", "b": "algebra", "c": "logic", "d": "logic"}, 3)


def record(item="a", sample=0, correct=False, **changed):
    fields = {
        "item": item,
        "sample": sample,
        "seed": sample_seed(RULES.suite, item, sample, RULES.seed),
        "prompt": "0f" * 16,
        "text": "I say \\boxed{4}\n",
        "extracted": "4",
        "correct": correct,
        "score": float(correct),
        "finish": "stop",
        "read": 12,
        "sampled": 7,
        "seconds": 0.25,
    }
    return SampleRecord(**fields | changed)


RECORDS = [record(item, sample, correct=(ord(item) + sample) % 2 == 0) for item, sample in SCHEDULED]
