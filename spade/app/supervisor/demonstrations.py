"""Make training examples from the programs of a pool. Each program is the answer to design prompts of a config."""

from collections import Counter
from collections.abc import Iterator, Sequence

import trio

from actors.corpus import load_grounds
from actors.environments.admission import derive_check_seed, validate
from actors.play.domains import load_profile
from actors.sandbox import open_sandbox
from actors.text.design_prompt import fit_prompt
from actors.text.prompts import draw_challenge, format_code
from replay.inspect.training_examples import ExampleRow
from spade.codec import compute_program_digest
from spade.config import Config
from spade.decoding import UnreadableError
from spade.errors import RunError
from spade.policy import model_folder
from spade.pools import PoolProgram
from spade.progress import follow
from spade.protocol import DesignJob, MemorySeed, Verdict
from spade.seeds import derive
from spade.tokens import ExampleMessage, Tokenizer, write_example

_DRAWS = 256  # maximum number of jobs to draw until one asks for a program of the wanted form


class Demonstrations:
    """Makes the rows of a pool, and counts the programs and answers that get no row."""

    def __init__(self, config: Config) -> None:
        if config.run.domain != "games" or config.design.source != "model":
            raise RunError(
                "--config: give a recipe of games in which the model designs; the programs answer its prompts"
            )
        folder = model_folder.resolve(config.model.path)
        self._config = config
        self._profile = load_profile(config)
        self._tokenizer = Tokenizer.load(folder, thinking=config.model.thinking)
        self._documents = load_grounds(config).documents
        self._end = self._tokenizer.turn_ids((), [ExampleMessage("user", "")])[0]
        self.designs = self.hints = 0
        """Number of designs and number of hints among the rows so far."""

        self.left_out: Counter[str] = Counter()
        """Number of programs and answers that were left out, by reason."""

    def rows(self, programs: Sequence[PoolProgram], prompts: int) -> Iterator[ExampleRow]:
        """Yield `prompts` designs of each admitted program, and its hint if the config plays with hints."""
        verdicts = trio.run(self._admit, programs)
        sound = [(each, verdict) for each, verdict in zip(programs, verdicts, strict=True) if verdict.passed]
        self.left_out["programs that admission rejects"] += len(programs) - len(sound)
        for program, verdict in follow(sound, "writing examples"):
            others = [each for each, _ in sound if each.skill == program.skill and each is not program]
            for number in range(prompts):
                yield from self._design(program, verdict, others if number % 2 else [], number)
            if self._config.hinted and program.hint:
                yield from self._hint(program)

    async def _admit(self, programs: Sequence[PoolProgram]) -> list[Verdict]:
        """Judge each program with the seed of `spade env check`, which can show the reason of a rejection."""
        config = self._config
        async with open_sandbox(config.sandbox, fixed_hashes=True) as sandbox:
            return [
                await validate(sandbox, each.source, derive_check_seed(each.source), config.sandbox, config.play)
                for each in follow(programs, "judging programs")
            ]

    def _design(
        self, program: PoolProgram, verdict: Verdict, others: Sequence[PoolProgram], number: int
    ) -> Iterator[ExampleRow]:
        """Yield the program as the answer to a job. The job shows programs of `others` to be varied."""
        job = self._draw_job(program, verdict, others, number)
        if job is None:
            self.left_out["programs of a form that no job asks for"] += 1
            return
        design = self._config.design
        document = self._documents[job.draw % len(self._documents)] if self._documents else None
        room = self._config.engine.context_tokens - design.max_tokens
        prompt = fit_prompt(self._profile, self._tokenizer, job, document, room).ids
        # Write the program as the model would: in a fence, or for nano without one.
        for answer in (format_code(program.source), program.source):
            written = self._profile.program(answer)
            if written is not None and written.source.strip() == program.source.strip():
                for row in self._make_row(f"{program.name}/{number}", job.skill, prompt, answer, design.max_tokens):
                    self.designs += 1
                    yield row
                return
        self.left_out["programs that cannot be read back from an answer"] += 1

    def _draw_job(
        self, program: PoolProgram, verdict: Verdict, others: Sequence[PoolProgram], number: int
    ) -> DesignJob | None:
        """Draw a job for which a designer could write this program. Returns None after too many draws."""
        design, digest = self._config.design, compute_program_digest(program.source)
        for again in range(_DRAWS):
            draw = derive(b"", "demonstrated job", digest, number, again)
            challenged = self._config.model.profile == "full"  # nano's prompts do not ask for a form
            if not challenged or draw_challenge(design, draw).single_turn == verdict.single_turn:
                skills = self._config.run.skills
                first = draw % max(1, len(others))
                shown = [*others[first:], *others[:first]][: design.memory_seeds]
                seeds = tuple(MemorySeed(each.name, each.source, None, None) for each in shown)
                return DesignJob("", 1, 0, program.skill or skills[draw % len(skills)], draw, 0, seeds)
        return None

    def _hint(self, program: PoolProgram) -> Iterator[ExampleRow]:
        """Yield the program's hint as the answer to the prompt for a hint."""
        prompt = self._tokenizer.prompt_ids(self._profile.hint(program.source))
        most = self._config.design.hint_max_tokens
        for row in self._make_row(f"{program.name}/hint", program.skill or "", prompt, program.hint, most):
            self.hints += 1
            yield row

    def _make_row(self, id: str, skill: str, prompt: Sequence[int], answer: str, most: int) -> Iterator[ExampleRow]:
        sampled = [*self._tokenizer.encode(answer), self._end]
        if len(sampled) > most:
            self.left_out["answers of more tokens than the config allows"] += 1
            return
        try:
            example = write_example(self._tokenizer, prompt, sampled)
        except UnreadableError as error:
            self.left_out[f"answers {error}"] += 1
            return
        variables = {"enable_thinking": self._config.model.thinking}
        yield ExampleRow(id, "designer", skill, 0.0, example.prompt, [example.completion], variables)
