"""The section `holdfast` of the configuration file: what OpenCode does not have."""

from typing import Annotated, Literal

from msgspec import Meta

from holdfast.core.config.section import Depth, NonNegativeInt, PositiveInt, Section
from holdfast.schema.budget import COUNT, MONEY, SECONDS


class Answer(Section):
    """Limits of one provider response (LLM-390)."""

    part_bytes: PositiveInt | None = None
    argument_bytes: PositiveInt | None = None
    turn_bytes: PositiveInt | None = None
    blocks: PositiveInt | None = None
    frame_bytes: PositiveInt | None = None
    stream_bytes: PositiveInt | None = None
    inflation: PositiveInt | None = None


class Retry(Section):
    """How long a turn is retried while its provider is overloaded or unreachable (LLM-411)."""

    total_seconds: Annotated[int, Meta(ge=0, le=86_400)] | None = None
    """From the first attempt to the start of the last one; 0 means one attempt."""
    delay_seconds: Annotated[int, Meta(ge=1, le=3_600)] | None = None
    """The longest delay between two attempts if the provider does not ask for one."""


class SnapshotLimits(Section):
    """Limits of a project's snapshots (SES-222)."""

    file_bytes: PositiveInt | None = None
    files: PositiveInt | None = None


class Sandbox(Section):
    """How agents' commands are confined. Only the user's own configuration may set this."""

    mode: Literal["off", "read-only", "workspace"] | None = None
    network: Literal["off", "proxy", "on"] | None = None
    required: bool | None = None
    """Refuse commands that cannot be confined instead of running them without a sandbox."""
    writable: list[str] | None = None
    """More directories that commands may write in `workspace` mode."""
    hosts: list[str] | None = None
    """Hosts that `network: proxy` may reach. `*` is every public host; `name`, `name:port` and `*.name` may also be
    private."""


class BudgetLimits(Section):
    """The budget of new Sessions that have no parent. A project that is not trusted can only narrow it."""

    money: Annotated[float, Meta(ge=0, le=MONEY)] | None = None
    """In US dollars."""
    tokens: Annotated[int, Meta(ge=0, le=COUNT)] | None = None
    turns: Annotated[int, Meta(ge=0, le=COUNT)] | None = None
    """Requests to models."""
    time: Annotated[float, Meta(ge=0, le=SECONDS)] | None = None
    """Seconds of work."""


class Subagents(Section):
    """How far Sessions may give work to children. A project that is not trusted can only narrow it."""

    depth: Depth | None = None
    """How many levels of children a Session may have below it. 0 switches subagents off."""
    parallel: PositiveInt | None = None
    """Children of one Session that it waits for at once; further calls wait in order."""
    tree: PositiveInt | None = None
    """Tasks under way in a whole tree; further ones are refused."""
    background: bool | None = None
    """Whether tasks may go on while their caller does something else."""


class McpOffer(Section):
    """How tools of MCP servers are offered to a model."""

    tokens: NonNegativeInt | None = None
    """Up to this size, by estimate, tools are offered by their names; beyond it they are searched for."""


class Storage(Section):
    """Where Sessions are stored. Only the user's own configuration may set this; it is read at start."""

    url: str | None = None
    """The address of a PostgreSQL database, or `sqlite` for the file in the data directory."""
    roots: list[str] | None = None
    """Directories whose Sessions `holdfast serve` executes here; without it, all that exist. `LABEL=DIRECTORY` names
    the volume that is there: its Sessions are executed only by servers with the same label. `--root` replaces it."""
    name: str | None = None
    """How this server is called among those on the database. `--node-name` replaces it."""
    address: str | None = None
    """Where other servers on the database reach this one. `--node-address` replaces it."""
    secret_file: str | None = None
    """A file with the secrets with which servers on the database sign requests to each other, one in each line. The
    first signs, all are accepted. It is read again while servers run. HOLDFAST_NODE_SECRET_FILE replaces it."""


class Log(Section):
    """Log lines of `holdfast serve`. Only the user's own configuration may set this; it is read at start."""

    level: Literal["debug", "info", "warning", "error"] | None = None
    """HOLDFAST_LOG_LEVEL and `--log-level` replace it."""
    format: Literal["text", "json"] | None = None
    """HOLDFAST_LOG_FORMAT and `--log-format` replace it."""


class Telemetry(Section):
    """Where traces are sent. Only the user's own configuration may set this; it is read at start."""

    traces: str | None = None
    """The address of a collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`."""
    headers: dict[str, str] | None = None
    """Sent with every request to it, such as `authorization`."""


class ProjectRetention(Section):
    """Which Sessions of a directory are kept, in place of the general limits."""

    age: Annotated[float, Meta(ge=0)] | None = None
    """Remove Sessions that did not change for this many days."""
    archived: Annotated[float, Meta(ge=0)] | None = None
    """Remove archived Sessions that did not change for this many days."""
    count: NonNegativeInt | None = None
    """Keep at most this many, the most recently changed ones. Archived Sessions go first."""


class Retention(ProjectRetention):
    """Which Sessions are kept. Only the user's own configuration may set this. A Session counts with everything below
    it. Pinned Sessions, and those that work or wait, always stay."""

    deleted: Annotated[float, Meta(ge=0)] | None = None
    """Remove what is left of Sessions this many days after they were deleted; 0 removes it at the next run."""
    size: PositiveInt | None = None
    """Remove the oldest Sessions, archived ones first, while the database has more than this many megabytes."""
    projects: dict[str, ProjectRetention] | None = None
    """Other limits for Sessions in a directory and below it."""
    export: str | None = None
    """A directory to which each tree is exported as a bundle before it is removed."""
    automatic: bool | None = None
    """Whether `holdfast serve` applies this by itself, every hour. `holdfast retention` does it in any case."""


class Server(Section):
    """Names of `holdfast serve`. Only the user's own configuration may set this; it is read at start."""

    hosts: list[str] | None = None
    """Further host names of the server, such as that of a proxy. `--allow-host` adds to them."""
    origins: list[str] | None = None
    """Origins whose pages may send requests, such as `https://agent.example`. `--allow-origin` adds to them."""


class Limits(Section):
    """What `holdfast serve` takes. Only the user's own configuration may set this; it is read at start."""

    sessions: PositiveInt | None = None
    """Sessions in the database; without it there is no limit. New ones are refused beyond it."""
    drains: PositiveInt | None = None
    """Sessions that are executed at once; others wait. `--most-sessions` replaces it."""
    pending_inputs: PositiveInt | None = None
    """Admitted inputs of one Session that the model has not seen; 10,000 by default."""
    followers: PositiveInt | None = None
    """Open event streams; 5,000 by default. One token has at most a quarter of them."""
    requests_per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    """Requests of one token, over a longer time; 100 by default."""
    burst: PositiveInt | None = None
    """Requests of one token at once; 1,000 by default."""
    body_bytes: Annotated[int, Meta(ge=1024, le=COUNT)] | None = None
    """The body of a request; 32 MiB by default."""
    disk_floor_bytes: NonNegativeInt | None = None
    """With less free space on the disk of the data directory, new input is refused; 100 MiB by default, 0 never."""


class Holdfast(Section):
    """Settings of this runtime that OpenCode does not have."""

    sandbox: Literal["off", "read-only", "workspace"] | Sandbox | None = None
    storage: Storage | None = None
    log: Log | None = None
    telemetry: Telemetry | None = None
    retention: Retention | None = None
    server: Server | None = None
    limits: Limits | None = None

    recovery: Literal["ask", "safe", "always", "abandon", "continue"] | None = None
    """What happens to a turn that ended with its process after it was sent. `ask`: a person decides. `safe`, the
    default: the model is asked again, unless the outcome of a tool call is unknown; then a person decides. `always`:
    such calls are recorded as interrupted, and the model is asked again. `abandon`: the turn is closed. `continue` is
    `safe`."""
    titles: bool | None = None
    budget: BudgetLimits | None = None
    turns: PositiveInt | None = None
    """The largest number of turns without new input, for agents without `steps`."""
    running_calls: PositiveInt | None = None
    calls: PositiveInt | None = None
    repeated_calls: PositiveInt | None = None
    answer: Answer | None = None
    retry: Retry | None = None
    subagents: Subagents | None = None
    mcp: McpOffer | None = None
    snapshot: SnapshotLimits | None = None
    environment: list[str] | None = None
    """Host variables that commands get besides the usual ones."""
    external_paths: Literal["ask", "deny"] | None = None
    line_endings: Literal["as_given", "as_before"] | None = None
    stale_guard: bool | None = None
    patch_moves: bool | None = None
    patch_atomic: bool | None = None
