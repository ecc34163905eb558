"""Measure a checkpoint, or a run's newest policy. `python examples/evaluate_checkpoint.py MODEL SUITE ITEMS`"""

import sys

import spade

model, suite, items = sys.argv[1:]
measured = spade.evaluate(model, suite, protocol="short", items=int(items))
share = measured.summary.headline
if share is None:
    sys.exit(f"no figure: {measured.summary.why}")
print(f"{suite}: {share.mean:.2f}, 95 % interval {share.low:.2f} to {share.high:.2f}, {share.items} items")
for category, part in measured.summary.categories.items():
    print(f"  {category}: {part.mean:.2f}")
print(f"records in {measured.folder}")
