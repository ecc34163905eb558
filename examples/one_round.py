"""One round of SPADE in one process: design, admit, play in both arms, score, learn. Prints what happens."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from actors.engines.torch.engine import TorchEngine
from actors.environments.admission import validate
from actors.play.domains import load_chat_formats, load_profile
from actors.sandbox import Sandbox, open_sandbox
from actors.text.conversation import Conversation, Move
from actors.text.trajectory import TrajectoryBuilder
from learner import weights
from learner.backends.opening import open_backend
from replay.ledger.records import PlayRecord
from replay.ledger.reward import score_of
from spade.codec import unpack_ids
from spade.config import load
from spade.policy.model_folder import resolve
from spade.protocol import Batch, Generate, Group, Verdict, Weights
from spade.returns import has_different_returns
from spade.tokens import Tokenizer

CONFIG, SKILL, DESIGNS = load("nano", tuple(sys.argv[1:])), "optimization", 3
PLAY, DESIGN, MODEL = CONFIG.play, CONFIG.design, resolve(CONFIG.model.path)
TURNS, ROOM = PLAY.max_turns, PLAY.context_tokens - PLAY.max_turn_tokens
TOKENIZER = Tokenizer.load(MODEL)
PROFILE, CHAT_FORMATS = load_profile(CONFIG), load_chat_formats(CONFIG, TOKENIZER)
ENGINE = TorchEngine(Weights(1, 0, "", str(MODEL)), CONFIG.engine, CONFIG.model.dtype)


class Speaker(TrajectoryBuilder):
    """The policy in one conversation. It records the tokens that it reads and samples."""

    def __init__(self, prompt: list[int]) -> None:
        super().__init__(PLAY.temperature)
        self.read(prompt)
        self.said: list[int] = []


def speak(speakers: list[Speaker], max_tokens: int) -> list[str]:
    """Sample the next answer of each speaker, all in one batch. Return their texts."""
    for number, speaker in enumerate(speakers):
        ENGINE.submit(number, Generate(speaker.ids, max_tokens, PLAY.temperature, seed=ENGINE.sampled + number))
    while ENGINE.busy:
        for number, generated in ENGINE.step():
            speakers[number].sampled(generated)
            speakers[number].said = unpack_ids(generated.ids).tolist()
    return [TOKENIZER.decode(speaker.said) for speaker in speakers]


async def play(sandbox: Sandbox, source: str, verdict: Verdict, hint: str | None) -> list[tuple[PlayRecord, Speaker]]:
    """Play an environment in one arm. Both arms play the same instances, and the hint is their only difference."""
    chat_format, seeds = CHAT_FORMATS(verdict.reads, verdict.single_turn), range(PLAY.group_size)
    plays = [Conversation[Move](await sandbox.open(str(i), source, i, TURNS), TURNS) for i in seeds]
    speakers = [Speaker(TOKENIZER.prompt_ids(chat_format.open(each.observed[0], hint).messages)) for each in plays]
    while going := [i for i, each in enumerate(plays) if each.pending and speakers[i].tokens <= ROOM]:
        texts = speak([speakers[i] for i in going], PLAY.max_turn_tokens)
        for i, move in zip(going, map(chat_format.act, texts), strict=True):
            plays[i].actions.append(move)
            plays[i].answers.append(await sandbox.step(str(i), len(plays[i].actions), move.action))
            if seen := plays[i].pending:
                speakers[i].read(TOKENIZER.turn_ids(speakers[i].said, chat_format.turn(seen, move)))
    records = [PlayRecord(str(i), source, 0, i, hint is not None, "finished") for i in seeds]
    for record, each in zip(records, plays, strict=True):
        record.episode_return, record.state = each.episode_return, "void" if each.outcome == "fault" else "finished"
    return list(zip(records, speakers, strict=True))


async def main() -> None:
    designers = [Speaker(TOKENIZER.prompt_ids(PROFILE.design(SKILL, None, (), None, draw))) for draw in range(DESIGNS)]
    rewards, groups = [0.0] * DESIGNS, list[Group]()
    async with open_sandbox(CONFIG.sandbox) as sandbox:
        for i, source in enumerate(speak(designers, DESIGN.max_tokens)):
            verdict = await validate(sandbox, source, i, CONFIG.sandbox, PLAY)
            print(f"design {i}: {verdict.name or 'no program'}, {'admitted' if verdict.passed else verdict.stages[-1]}")
            if verdict.passed:
                asked = Speaker(TOKENIZER.prompt_ids(PROFILE.hint(source)))
                hint = PROFILE.hint_text(*speak([asked], DESIGN.hint_max_tokens))
                unhinted, hinted = [await play(sandbox, source, verdict, told) for told in (None, hint)]
                score = score_of([record for record, _ in unhinted + hinted], 0, False, None, None, CONFIG)
                rewards[i] = score.reward or 0.0
                print(f"  win rate {score.win_rate}, and {score.win_rate_hinted} with the hint {hint!r}")
                print(f"  regret {score.regret} ± {score.regret_error}: its designer earns {rewards[i]:.3f}")
                returns = tuple(record.episode_return for record, _ in unhinted)
                if has_different_returns(returns) and not score.voids:
                    groups.append(Group(source, "agent", returns, tuple(player.trajectory() for _, player in unhinted)))
    groups.append(Group("designs", "designer", tuple(rewards), tuple(each.trajectory() for each in designers)))
    backend, _ = open_backend(CONFIG, None)
    learned = backend.train(Batch(1, ENGINE.version, tuple(groups)))
    with TemporaryDirectory() as folder:
        digest, path = weights.publish(backend.model, CONFIG.model.dtype, MODEL, Path(folder))
        ENGINE.load_weights(Weights(2, 1, digest, str(path)))
    print(f"learner: {learned.trained_tokens} tokens, gradient {learned.grad_norm:.3f}; new policy: {digest}")


if __name__ == "__main__":
    trio.run(main)
