"""The plays of evaluations: with token ids for engines or an endpoint, or with chats for a foreign server."""

from collections.abc import Callable
from functools import partial

from actors.links.connected import ActorConnections
from actors.links.connected import attend as attend_services
from actors.play.examiner import Examiner, SampleResult
from actors.play.play_settings import PlaySettings, make_suite_play_settings
from actors.play.session import Session, attend
from actors.play.voices.chats import ChatVoice
from spade.app.evaluation.planned import Missing, PlannedEvaluation, Say, report_progress, show_samples
from spade.app.evaluation.servers import ServerOptions
from spade.app.rundir import RunDir
from spade.app.supervisor import launches
from spade.config import Config
from spade.evaluations import RecordFile, SuiteItem


async def play_by_tokens(run: RunDir, config: Config, missing: Missing, say: Say) -> None:
    """Play the missing samples at the engines of a run, or at its endpoint."""

    async def work(session: Session) -> None:
        def play_settings(exam: PlannedEvaluation) -> PlaySettings:
            return make_suite_play_settings(exam.suite, exam.plan.rules.protocol, exam.chat_formats, session)

        for exam, kept in missing:
            await _play(session, exam, kept, say, partial(play_settings, exam))

    await attend(launches.make_evaluator_launch(run, config), config, config.play.lease_s, _ignore_ready, work)


async def play_by_chats(run: RunDir, config: Config, missing: Missing, say: Say, server: ServerOptions) -> None:
    """Play the missing samples with a server that answers chats."""
    async with server.open(config.engine.request_deadline_s) as chats:

        async def work(connected: ActorConnections) -> None:
            def play_settings(exam: PlannedEvaluation) -> PlaySettings:
                protocol = exam.plan.rules.protocol
                voice = ChatVoice(chats, server.model, protocol.sampling)
                return PlaySettings(exam.chat_formats(), voice, protocol.turns, exam.suite.needs)

            for exam, kept in missing:
                await _play(connected, exam, kept, say, partial(play_settings, exam))

        orders = launches.make_evaluator_launch(run, config)
        await attend_services(orders, config, ("env-runner",), config.play.lease_s, _ignore_ready, work)


async def _play(
    connected: ActorConnections,
    exam: PlannedEvaluation,
    kept: RecordFile,
    say: Say,
    play_settings: Callable[[], PlaySettings],
) -> None:
    """Play and record the missing samples of one evaluation."""
    rules, say_progress = exam.plan.rules, report_progress(exam, kept, say)

    async def play_settings_of(_: SuiteItem) -> PlaySettings:
        return play_settings()

    def over(examined: SampleResult) -> None:
        kept.add(examined.record)
        say_progress()

    samples = [(exam.plan.items[name], number) for name, number in kept.missing]
    with show_samples(exam, kept):
        await Examiner(connected, rules.suite, rules.seed, play_settings_of).examine(samples, over)


def _ignore_ready() -> None:
    """Do nothing, because nobody waits until this process is ready."""
