import pytest

from actors.text.judge import read_judgement, review


def test_the_question_has_the_program_and_its_first_observation() -> None:
    _, asked = review("class AEnv: ...", "Guess it. It is odd.")
    assert "class AEnv: ..." in asked.content
    assert "<observation>\nGuess it. It is odd.\n</observation>" in asked.content


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("It states the rule. \\boxed{yes}", True), ("\\boxed{yes} or rather \\boxed{ No }", False),
        ("<think>\\boxed{yes}</think> \\boxed{no}", False), ("\\boxed{maybe}", None), ("yes", None), ("", None),
        ("<think>\\boxed{yes}", None), ("\\boxed{\\text{no}}", False), ("\\boxed{No.}", False),
    ],
)  # fmt: skip
def test_the_last_box_behind_the_thoughts_counts(answer: str, told: bool | None) -> None:
    assert read_judgement(answer) is told
