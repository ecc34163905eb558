"""Every message of the bus, and the values in the messages. Each module says which processes exchange its messages.

Messages are frozen, tagged, array-like msgspec structs. New information is a new field with a default at the end.
Constructors check lengths, so decoding checks them too. Each request names the type of its reply.
"""

from spade.protocol.audits import Audited, AuditJob, Audits, LeaseAudit, RecordedPlay, UnaidedInstance
from spade.protocol.base import (
    DIGEST_BYTES,
    MOST_ACTORS,
    MOST_ARGUMENTS,
    MOST_CALLS,
    MOST_CATEGORIES,
    MOST_GAUGES,
    MOST_HELD,
    MOST_HINT,
    MOST_ITEMS,
    MOST_NAME,
    MOST_RETIRED,
    Finish,
    Form,
    LifeNumber,
    Outcome,
    ProcessState,
    Repair,
    Repairs,
    Reply,
    Request,
    Role,
    reply_type,
)
from spade.protocol.designs import (
    CompareProgram,
    DesignJob,
    Designs,
    LeaseDesigns,
    MemorySeed,
    RejectCandidate,
    ReleaseDesign,
    Similarity,
    SubmitEnvironment,
)
from spade.protocol.engines import Generate, Generated, GetWeights, GiveUp, HoldWeights, Overdue, Serving, WeightsPart
from spade.protocol.measures import (
    MOST_PROGRAMS,
    Diversity,
    GetNewestPrograms,
    MeasuredDiversity,
    Measures,
    NewestPrograms,
)
from spade.protocol.plays import EndedPlay, LeasePlays, PlayLease, Plays, ReleasePlay, SubmitPlays, ToolUse
from spade.protocol.programs import (
    MOST_VALUES,
    CloseEpisode,
    Faulted,
    GetProgram,
    KeepProgram,
    Needs,
    Observed,
    OpenEpisode,
    Program,
    Stage,
    StepEpisode,
    ToolCall,
    ToolResult,
    Validate,
    Verdict,
)
from spade.protocol.ranks import AwaitCommand, Gather, Load, Meet, Save
from spade.protocol.session import Done, Goodbye, Heartbeat, Hello, Peer, Pulse, Ready, Refused, Rehello, Wait, Weights
from spade.protocol.status import Counts, Drawn, GetStatus, Histories, Recent, SkillFigures, Status, Traffic
from spade.protocol.supervision import Enroll, Enrolled, Orders, Process, ReportProcesses, StopRun
from spade.protocol.training import (
    Batch,
    Checkpointed,
    Evaluated,
    Evaluation,
    Group,
    NotYet,
    Publish,
    Published,
    Retired,
    RetireWeights,
    StepMetrics,
    TakeBatch,
)
from spade.protocol.trajectories import Recording, Trajectory

PROTOCOL_VERSION = 11

AnyRequest = (
    Hello | Heartbeat | Goodbye
    | Generate | GiveUp | Serving | HoldWeights | GetWeights
    | OpenEpisode | StepEpisode | CloseEpisode | Validate | KeepProgram | GetProgram
    | LeaseDesigns | CompareProgram | RejectCandidate | SubmitEnvironment | ReleaseDesign
    | LeasePlays | SubmitPlays | ReleasePlay
    | LeaseAudit | Audited
    | TakeBatch | Publish | RetireWeights | Checkpointed | AwaitCommand
    | Evaluated | GetNewestPrograms | MeasuredDiversity
    | Enroll | ReportProcesses | Orders | StopRun | GetStatus
)  # fmt: skip

Response = (
    Ready | Refused | Rehello | Pulse | Done
    | Generated | Overdue | WeightsPart
    | Observed | Faulted | Verdict | Program | NewestPrograms
    | Designs | Similarity | Plays | Audits
    | Batch | NotYet | Published | Retired | Weights | Meet | Gather | Save | Load
    | Enrolled | Orders | Status
)  # fmt: skip

__all__ = [
    "DIGEST_BYTES", "MOST_ACTORS", "MOST_ARGUMENTS", "MOST_CALLS", "MOST_CATEGORIES", "MOST_GAUGES", "MOST_HELD",
    "MOST_HINT", "MOST_ITEMS", "MOST_NAME", "MOST_PROGRAMS", "MOST_RETIRED", "MOST_VALUES", "PROTOCOL_VERSION",
    "AnyRequest", "AuditJob", "Audited", "Audits", "AwaitCommand", "Batch", "Checkpointed", "CloseEpisode",
    "CompareProgram", "Counts", "DesignJob", "Designs", "Diversity", "Done", "Drawn", "EndedPlay", "Enroll", "Enrolled",
    "Evaluated", "Evaluation", "Faulted", "Finish", "Form", "Gather", "Generate", "Generated", "GetNewestPrograms",
    "GetProgram", "GetStatus", "GetWeights", "GiveUp", "Goodbye", "Group", "Heartbeat", "Hello", "Histories",
    "HoldWeights", "KeepProgram", "LeaseAudit", "LeaseDesigns", "LeasePlays", "LifeNumber", "Load", "MeasuredDiversity",
    "Measures", "Meet", "MemorySeed", "Needs", "NewestPrograms", "NotYet", "Observed", "OpenEpisode", "Orders",
    "Outcome", "Overdue", "Peer", "PlayLease", "Plays", "Process", "ProcessState", "Program", "Publish", "Published",
    "Pulse", "Ready", "Recent", "RecordedPlay", "Recording", "Refused", "Rehello", "RejectCandidate", "ReleaseDesign",
    "ReleasePlay", "Repair", "Repairs", "Reply", "ReportProcesses", "Request", "Response", "RetireWeights", "Retired",
    "Role", "Save", "Serving", "Similarity", "SkillFigures", "Stage", "Status", "StepEpisode", "StepMetrics", "StopRun",
    "SubmitEnvironment", "SubmitPlays", "TakeBatch", "ToolCall", "ToolResult", "ToolUse", "Traffic", "Trajectory",
    "UnaidedInstance",
    "Validate", "Verdict", "Wait", "Weights", "WeightsPart", "reply_type",
]  # fmt: skip
