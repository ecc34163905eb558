"""The plays of evaluations: with token ids for engines or an endpoint, or with chats for a foreign server."""

from collections.abc import Callable
from functools import partial

from actors.links.connected import Connected
from actors.links.connected import attend as attend_services
from actors.play.examiner import Examined, Examiner
from actors.play.manner import Manner, make_suite_manner
from actors.play.session import Session, attend
from actors.play.voices.chats import ChatVoice
from spade.app.evaluation.exams import Exam, Missing, Say, report_progress, show_samples
from spade.app.evaluation.servers import ServerOptions
from spade.app.rundir import RunDir
from spade.app.supervisor import launches
from spade.config import Config
from spade.evaluations import RecordFile, SuiteItem


async def play_by_tokens(run: RunDir, config: Config, missing: Missing, say: Say) -> None:
    """Play the missing samples at the engines of a run, or at its endpoint."""

    async def work(session: Session) -> None:
        def manner(exam: Exam) -> Manner:
            return make_suite_manner(exam.suite, exam.plan.rules.protocol, exam.talks, session)

        for exam, kept in missing:
            await _play(session, exam, kept, say, partial(manner, exam))

    await attend(launches.make_evaluator_launch(run, config), config, config.play.lease_s, _ignore_ready, work)


async def play_by_chats(run: RunDir, config: Config, missing: Missing, say: Say, server: ServerOptions) -> None:
    """Play the missing samples with a server that answers chats."""
    async with server.open(config.engine.request_deadline_s) as chats:

        async def work(connected: Connected) -> None:
            def manner(exam: Exam) -> Manner:
                protocol = exam.plan.rules.protocol
                voice = ChatVoice(chats, server.model, protocol.sampling)
                return Manner(exam.talks(), voice, protocol.turns, exam.suite.needs)

            for exam, kept in missing:
                await _play(connected, exam, kept, say, partial(manner, exam))

        orders = launches.make_evaluator_launch(run, config)
        await attend_services(orders, config, ("env-runner",), config.play.lease_s, _ignore_ready, work)


async def _play(connected: Connected, exam: Exam, kept: RecordFile, say: Say, manner: Callable[[], Manner]) -> None:
    """Play and record the missing samples of one evaluation."""
    rules, say_progress = exam.plan.rules, report_progress(exam, kept, say)

    async def manner_of(_: SuiteItem) -> Manner:
        return manner()

    def over(examined: Examined) -> None:
        kept.add(examined.record)
        say_progress()

    samples = [(exam.plan.items[name], number) for name, number in kept.missing]
    with show_samples(exam, kept):
        await Examiner(connected, rules.suite, rules.seed, manner_of).examine(samples, over)


def _ignore_ready() -> None:
    """Do nothing, because nobody waits until this process is ready."""
