"""The figures of a run as a data frame of pandas."""

import pandas

from spade.app.door import FigureTable


def test_a_table_becomes_a_data_frame():
    frame = FigureTable(
        {"learner_step": [1, 2], "regret": [None, 0.25], "skills/counting/regret": [0.5, None]}
    ).to_pandas()
    assert list(frame.columns) == ["learner_step", "regret", "skills/counting/regret"]
    assert frame.learner_step.tolist() == [1, 2]
    assert (frame.regret.isna().tolist(), frame.regret.mean()) == ([True, False], 0.25)
    assert isinstance(frame, pandas.DataFrame)
