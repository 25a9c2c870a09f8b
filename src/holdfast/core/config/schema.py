"""The configuration file as types. The JSON Schema, the validation and the known names are derived from them.

This module does not postpone the evaluation of annotations: msgspec would have to compile each of them when the first
document is read."""

from typing import Annotated, Any, Literal, dataclass_transform

import msgspec
from msgspec import Meta

from holdfast.schema.budget import COUNT, MONEY, SECONDS
from holdfast.schema.record import RecordMeta

PositiveInt = Annotated[int, Meta(gt=0)]
Depth = Annotated[int, Meta(ge=0, le=10)]
"""Levels of children below a Session."""
NonNegativeInt = Annotated[int, Meta(ge=0)]
Text = dict[str, str]
Color = Annotated[str, Meta(pattern="^(#[0-9a-fA-F]{6}|primary|secondary|accent|success|warning|error|info)$")]


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section(msgspec.Struct, metaclass=RecordMeta, frozen=True, omit_defaults=True):
    """A part of the file. `null` is the same as a missing key."""


class Rule(Section):
    """The last matching rule decides."""

    action: str
    resource: str
    effect: Literal["allow", "deny", "ask"]


class Statement(Section):
    effect: Literal["allow", "deny"]
    action: Literal["provider.use"]
    resource: str


class Request(Section):
    headers: Text | None = None
    body: dict[str, Any] | None = None


class Agent(Section):
    model: str | None = None
    """`provider/model`."""
    variant: str | None = None
    request: Request | None = None
    system: str | None = None
    description: str | None = None
    mode: Literal["primary", "subagent", "all"] | None = None
    hidden: bool | None = None
    color: Color | None = None
    steps: PositiveInt | None = None
    disabled: bool | None = None
    permissions: list[Rule] | None = None


class Command(Section):
    template: str
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    subtask: bool | None = None


class Reference(Section):
    """A folder or a repository. The short form is a string."""

    path: str | None = None
    repository: str | None = None
    branch: str | None = None
    description: str | None = None
    hidden: bool | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.repository is None):
            raise ValueError("needs either a path or a repository")


class Plugin(Section):
    package: str
    options: dict[str, Any] | None = None


class AiSdkApi(Section, tag_field="type", tag="aisdk"):
    """Named by an AI SDK package, which selects the protocol."""

    package: str
    url: str | None = None
    settings: dict[str, Any] | None = None


class NativeApi(Section, tag_field="type", tag="native"):
    url: str | None = None
    settings: dict[str, Any] | None = None


class ModelApi(Section):
    id: str | None = None
    type: Literal["aisdk", "native"] | None = None
    package: str | None = None
    url: str | None = None
    settings: dict[str, Any] | None = None


class Capabilities(Section):
    tools: bool | None = None
    input: list[str] | None = None
    output: list[str] | None = None
    structured: bool | None = None
    """Whether the provider's JSON mode is used for structured answers; the catalog knows it of many models."""


class ModelRequest(Request):
    variant: str | None = None


class Variant(Request):
    id: str


class Tier(Section):
    type: Literal["context"]
    size: NonNegativeInt


class CachePrice(Section):
    read: float | None = None
    write: float | None = None


class Cost(Section):
    """Dollars per million tokens."""

    input: float
    output: float
    cache: CachePrice | None = None
    tier: Tier | None = None


class Limit(Section):
    context: NonNegativeInt | None = None
    input: NonNegativeInt | None = None
    output: NonNegativeInt | None = None


class Model(Section):
    family: str | None = None
    name: str | None = None
    api: ModelApi | None = None
    capabilities: Capabilities | None = None
    request: ModelRequest | None = None
    variants: list[Variant] | None = None
    cost: Cost | list[Cost] | None = None
    disabled: bool | None = None
    limit: Limit | None = None


class Provider(Section):
    name: str | None = None
    env: list[str] | None = None
    api: AiSdkApi | NativeApi | None = None
    request: Request | None = None
    models: dict[str, Model] | None = None


class Timeouts(Section):
    """Milliseconds."""

    startup: PositiveInt | None = None
    catalog: PositiveInt | None = None
    execution: PositiveInt | None = None
    request: PositiveInt | None = None
    """Both `catalog` and `execution`, where they are not given."""


class OAuth(Section):
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    callback_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    redirect_uri: str | None = None


class LocalServer(Section, tag_field="type", tag="local"):
    command: Annotated[list[str], Meta(min_length=1)]
    cwd: str | None = None
    environment: Text | None = None
    disabled: bool | None = None
    timeout: Timeouts | None = None
    codemode: bool | None = None
    eager: bool | None = None
    """Connect when the Location opens, also if it is known what the server offers."""


class RemoteServer(Section, tag_field="type", tag="remote"):
    url: str
    headers: Text | None = None
    oauth: OAuth | bool | None = None
    """False disables OAuth."""
    disabled: bool | None = None
    timeout: Timeouts | None = None
    codemode: bool | None = None
    eager: bool | None = None


class ServerSwitch(Section):
    """Changes a server that another file defines."""

    disabled: bool | None = None
    timeout: Timeouts | None = None
    codemode: bool | None = None
    eager: bool | None = None


class Mcp(Section):
    timeout: Timeouts | None = None
    servers: dict[str, LocalServer | RemoteServer] | None = None


class Keep(Section):
    tokens: NonNegativeInt | None = None


class Compaction(Section):
    auto: bool | None = None
    prune: bool | None = None
    keep: Keep | None = None
    buffer: NonNegativeInt | None = None


class Image(Section):
    auto_resize: bool | None = None
    max_width: PositiveInt | None = None
    max_height: PositiveInt | None = None
    max_base64_bytes: PositiveInt | None = None


class Attachments(Section):
    image: Image | None = None


class ToolOutput(Section):
    max_lines: PositiveInt | None = None
    max_bytes: PositiveInt | None = None


class Watcher(Section):
    ignore: list[str] | None = None


class Enterprise(Section):
    url: str | None = None


class Experimental(Section):
    policies: list[Statement] | None = None
    subagent_depth: Depth | None = None
    """As `holdfast.subagents.depth`, which comes before it."""


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
    """Remove what is left of deleted Sessions that did not change for this many days; 0 removes it at the next run."""
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

    recovery: Literal["ask", "continue", "abandon"] | None = None
    """What happens at start to turns that ended with their process."""
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


class ConfigFile(Section, rename={"schema": "$schema"}):
    """`opencode.json`, `opencode.jsonc`."""

    schema: str | None = None
    shell: str | None = None
    model: str | None = None
    """`provider/model`."""
    default_agent: str | None = None
    autoupdate: bool | Literal["notify"] | None = None
    share: Literal["manual", "auto", "disabled"] | None = None
    enterprise: Enterprise | None = None
    username: str | None = None
    timezone: str | None = None
    subagent_depth: Depth | None = None
    """As `holdfast.subagents.depth`, which comes before it."""
    permissions: list[Rule] | None = None
    agents: dict[str, Agent] | None = None
    snapshots: bool | None = None
    watcher: Watcher | None = None
    formatter: bool | dict[str, Any] | None = None
    lsp: bool | dict[str, Any] | None = None
    attachments: Attachments | None = None
    tool_output: ToolOutput | None = None
    binary_files: Literal["refuse", "base64"] | None = None
    mcp: Mcp | None = None
    compaction: Compaction | None = None
    skills: list[str] | None = None
    commands: dict[str, Command] | None = None
    instructions: list[str] | None = None
    references: dict[str, str | Reference] | None = None
    plugins: list[str | Plugin] | None = None
    providers: dict[str, Provider] | None = None
    experimental: Experimental | None = None
    holdfast: Holdfast | None = None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file."""
    schema = msgspec.json.schema(ConfigFile)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
