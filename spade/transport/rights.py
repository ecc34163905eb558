"""Rights: the requests that each role may send, and the roles that a key grants.

Every server checks each message by the role in the peer's Hello. Without keys, the check only stops mistakes: no
process can do the work of another role. With keys, it also stops a hostile host, because a key grants only some roles.
"""

from typing import NamedTuple, get_args

from spade.protocol import (
    AnyRequest,
    Audited,
    AwaitCommand,
    Checkpointed,
    CloseEpisode,
    CompareProgram,
    Enroll,
    Evaluated,
    Generate,
    GetNewestPrograms,
    GetProgram,
    GetStatus,
    GetWeights,
    GiveUp,
    Goodbye,
    Heartbeat,
    Hello,
    HoldWeights,
    KeepProgram,
    LeaseAudit,
    LeaseDesigns,
    LeasePlays,
    MeasuredDiversity,
    OpenEpisode,
    Orders,
    Publish,
    RejectCandidate,
    ReleaseDesign,
    ReleasePlay,
    ReportProcesses,
    RetireWeights,
    Role,
    Serving,
    StepEpisode,
    StopRun,
    SubmitEnvironment,
    SubmitPlays,
    TakeBatch,
    Validate,
)

ROLES: tuple[Role, ...] = get_args(Role)
# Roles that `spade actors up` starts.
ACTORS: tuple[Role, ...] = ("designer", "curator", "agent", "env-runner", "engine", "endpoint")
HOST: tuple[Role, ...] = (*ACTORS, "supervisor")  # roles that the key of a joining host grants by default
LOCAL = "local"  # name of the key of the run's own host

_SESSION = (Hello, Heartbeat, Goodbye)
_REQUESTS: dict[Role, tuple[type[AnyRequest], ...]] = {
    "replay": (),
    "learner": (TakeBatch, Publish, RetireWeights, Checkpointed, AwaitCommand),
    "engine": (Serving, HoldWeights, GetWeights),
    "endpoint": (),
    "env-runner": (GetProgram, LeaseAudit, Audited),
    "designer": (Generate, Validate, LeaseDesigns, CompareProgram, RejectCandidate, SubmitEnvironment, ReleaseDesign),
    "curator": (Validate, LeaseDesigns, RejectCandidate, SubmitEnvironment, ReleaseDesign),
    "agent": (Generate, OpenEpisode, StepEpisode, CloseEpisode, LeasePlays, SubmitPlays, ReleasePlay),
    "evaluator": (
        Generate,
        Validate,
        KeepProgram,
        OpenEpisode,
        StepEpisode,
        CloseEpisode,
        Evaluated,
        GetNewestPrograms,
        MeasuredDiversity,
    ),
    "gateway": (Generate, GiveUp),
    "observer": (GetStatus, Orders, StopRun),
    "supervisor": (Enroll, GetStatus, ReportProcesses),
    "tracker": (),
}


class Grant(NamedTuple):
    """An entry of the allow-list."""

    name: str
    """Name of the key."""

    roles: frozenset[str]
    """Roles that the holder of the key may take."""

    def __str__(self) -> str:
        return " ".join((self.name, *sorted(self.roles)))

    @classmethod
    def parse(cls, text: str) -> "Grant":
        """Parse a grant from a text that `str` made."""
        name, *roles = text.split(" ")
        return cls(name, frozenset(roles))


def explain_forbidden(hello: Hello, request: AnyRequest) -> str:
    """Return the reason why the peer may not send this request, or "" if it may."""
    if isinstance(request, (*_SESSION, *_REQUESTS[hello.role])):
        return ""
    return f"{hello.name} is {_name_one(hello.role)}, which may not send {type(request).__name__}"


def explain_ungranted(hello: Hello, grant: Grant) -> str:
    """Return the reason why a key does not let its holder be this peer, or "" if it does.

    The name of a host's process ends in the name of the host's key, so that no host can pose as a process of another.
    """
    if hello.role not in grant.roles:
        may, name = " or ".join(sorted(grant.roles)) or "nothing", grant.name
        return (
            f"{hello.name} is {_name_one(hello.role)}, and the key of {name} only lets its holder be {may}; "
            f"remove allowed/{name}.key, then `spade keys new DIR {name} --roles {hello.role}` makes another"
        )
    if grant.name != LOCAL and not hello.name.endswith(f"@{grant.name}"):
        return f"{hello.name}: with the key of {grant.name}, a process needs a name that ends in @{grant.name}"
    return ""


def _name_one(role: Role) -> str:
    return f"{'an' if role[0] in 'aeo' else 'a'} {role}"
