"""Read a run, live or finished: its curve, its programs and its plays. `python examples/read_run.py runs/nano`"""

import sys

import spade

run = spade.open_run(sys.argv[1])
metrics = run.metrics  # columns; metrics.to_pandas() is a data frame
for step, rate, regret in zip(metrics["learner_step"], metrics["win_rate_unhinted"], metrics["regret"], strict=True):
    print(f"step {step}: win rate {rate}, regret {regret}")

measured = [each for each in run.environments if each.win_rate_unhinted is not None]
hardest = min(measured, key=lambda each: each.win_rate_unhinted)
print(f"won least often, {hardest.win_rate_unhinted}: {hardest.id}, {hardest.skill}\n{hardest.source}")

for play in run.plays(environment=hardest.id, hinted=False):
    # Tokens that the model read and sampled, and the log-probabilities of the sampled ones, are arrays of numpy.
    print(
        f"{play.id} {'won' if play.won else 'lost'}: {play.sampled.sum()} of {len(play.tokens)} tokens sampled, "
        f"at a mean log-probability of {play.logprobs.mean():.3f}"
    )
