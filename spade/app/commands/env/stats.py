"""`spade env stats`: compare the first, second and last third of a run's environments."""

from spade.app.commands.options import Json, RunArgument
from spade.app.printing import print_json, say

ROWS = {  # number of decimals of each figure
    "environments": 0, "lines": 1, "hidden_variables": 2, "reward_levels": 2, "turns": 2, "win_rate_unhinted": 3,
    "win_rate_hinted": 3, "regret": 3, "revealing_share": 3, "similarity": 3, "diversity": 3,
}  # fmt: skip
TOOL_ROWS = {  # number of decimals of each figure of programs with tools
    "environments": 0, "lines": 1, "tools": 2, "instructions": 2, "conditions": 2, "guarded_share": 3, "seed_share": 3,
    "turns": 2, "win_rate_unhinted": 3, "win_rate_hinted": 3, "regret": 3, "similarity": 3,
    "diversity": 3,
}  # fmt: skip
PAPER = {  # the paper's figures of programs with tools: at the beginning → at the end of a run
    "lines": "247 → 226", "tools": "7.6 → 5.9", "instructions": "4.7", "conditions": "1.9 → 2.0",
    "guarded_share": "0.2",
}  # fmt: skip


def stats(run: RunArgument, json: Json = False) -> None:
    """Show how a run's environments change.

    Prints means over the first, second and last third of the environments. The diversity uses the run's
    evaluation.embedding. Programs with tools have other figures, with the paper's beside them.
    """
    import msgspec

    from actors.text.measures.diversity import compute_vendi_share, load_embedding
    from replay.inspect.thirds import read_thirds
    from spade.app.rundir import RunDir
    from spade.config import load

    found = RunDir(run).require()
    embedding = load_embedding(load(str(found.config_path)).evaluation.embedding)
    thirds = [
        {
            **msgspec.structs.asdict(third),
            "diversity": compute_vendi_share(embedding(sources)) if len(sources) > 1 else None,
        }
        for third, sources in read_thirds(found.store)
    ]
    tools = any(third["tools"] is not None for third in thirds)
    rows = TOOL_ROWS if tools else ROWS
    if json:
        print_json([{name: third[name] for name in rows} for third in thirds])
        return
    say(f"{'':<18}{'first third':>12}{'second':>12}{'last':>12}{'paper' if tools else '':>12}".rstrip())
    for name, decimals in rows.items():
        cells = ["–" if third[name] is None else f"{third[name]:.{decimals}f}" for third in thirds]
        paper = PAPER.get(name, "") if tools else ""
        say((f"{name.replace('_', ' '):<18}" + "".join(f"{cell:>12}" for cell in (*cells, paper))).rstrip())
