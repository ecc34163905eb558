"""A server of OpenEnv as others write it: a number as action, several fields in an observation."""

import sys

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class CounterAction(Action):
    step: int = Field(ge=0, le=3)


class CounterObservation(Observation):
    total: int = 0
    target: int = 0


class CounterEnvironment(Environment):
    """Reach the target exactly. The step 3 breaks the counter."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **_):
        self.total, self.target = 0, 2 + seed % 3
        return CounterObservation(target=self.target)

    def step(self, action, timeout_s=None, **_):
        if action.step == 3:
            raise RuntimeError("the counter\nbroke")
        self.total += action.step
        done = self.total >= self.target
        return CounterObservation(total=self.total, target=self.target, done=done, reward=self.total == self.target)

    @property
    def state(self):
        return State()


if __name__ == "__main__":
    sessions, port = map(int, sys.argv[1:])
    models = CounterAction, CounterObservation
    app = create_app(CounterEnvironment, *models, env_name="counter", max_concurrent_envs=sessions)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
