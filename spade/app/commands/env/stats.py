"""`spade env stats`: how the environments of a run change from third to third."""

from spade.app.commands.options import Json, RunArgument
from spade.app.printing import print_json, say

ROWS = {  # figures, with their decimals
    "environments": 0, "lines": 1, "hidden_variables": 2, "reward_levels": 2, "turns": 2, "win_rate_unhinted": 3,
    "win_rate_hinted": 3, "regret": 3, "revealing_share": 3, "similarity": 3,
    "diversity": 3,
}  # fmt: skip


def stats(run: RunArgument, json: Json = False) -> None:
    """Show how a run's environments change.

    Means over the first, second and last third of them; the diversity by evaluation.embedding of the run.
    """
    import msgspec

    from actors.text.measures.diversity import load_embedding, vendi_share
    from replay.inspect.thirds import read_thirds
    from spade.app.rundir import RunDir
    from spade.config import load

    found = RunDir(run).require()
    embedding = load_embedding(load(str(found.config_path)).evaluation.embedding)
    thirds = [
        {**msgspec.structs.asdict(third), "diversity": vendi_share(embedding(sources)) if len(sources) > 1 else None}
        for third, sources in read_thirds(found.store)
    ]
    if json:
        print_json(thirds)
        return
    say(f"{'':<18}{'first third':>12}{'second':>12}{'last':>12}")
    for name, decimals in ROWS.items():
        cells = ["–" if third[name] is None else f"{third[name]:.{decimals}f}" for third in thirds]
        say(f"{name.replace('_', ' '):<18}" + "".join(f"{cell:>12}" for cell in cells))
