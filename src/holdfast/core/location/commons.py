"""What all Locations of a process share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from holdfast.core.catalog.models_dev import ModelsDev
    from holdfast.core.clock import Clock, Ids
    from holdfast.core.config.environment import Directories
    from holdfast.core.config.trust import Trust
    from holdfast.core.context.epoch import Epochs
    from holdfast.core.context.file_cache import FileCache
    from holdfast.core.context.registry import SystemContextRegistry
    from holdfast.core.context.remote import RemoteInstructions
    from holdfast.core.credential.store import CredentialStore
    from holdfast.core.database.database import Database
    from holdfast.core.event.log import EventLog
    from holdfast.core.filesystem.ownership import Owners
    from holdfast.core.permission.permission import Unattended
    from holdfast.core.process.sandbox.backends import Backends
    from holdfast.core.process.sandbox.confinement import Setting
    from holdfast.core.runner.services import SessionServices
    from holdfast.core.session.todo import Todos
    from holdfast.core.skill.downloads import SkillDownloads
    from holdfast.core.tool.output import OutputStore
    from holdfast.core.tool.registry import ApplicationTools
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.location import Location


class Commons(Frozen):
    environment: Mapping[str, str]
    directories: Directories
    database: Database
    sessions: SessionServices
    log: EventLog
    epochs: Epochs
    transport: Transport
    ids: Ids
    clock: Clock
    credentials: CredentialStore
    models: ModelsDev
    outputs: OutputStore
    application_tools: ApplicationTools
    application_context: SystemContextRegistry
    files: FileCache
    remote_instructions: RemoteInstructions
    skill_downloads: SkillDownloads
    own_ports: Callable[[], Collection[int]]
    """On which this process listens: nothing that the model fetches goes there."""
    todos: Todos
    unattended: Callable[[], Unattended]
    """What happens to a question that needs a person."""
    owners: Owners | None
    """Whose files of a project count; None is anybody's."""
    trust: Trust
    """What projects may say beyond narrowing."""
    wake_pending: Callable[[Location], None]
    """Wake the Sessions of a Location whose input could not be started: its configuration has changed."""
    before_start: Callable[[], None] | None
    """Called before a command of an agent or a terminal is started."""
    host_configuration: Sequence[tuple[Path, dict[str, Any]]]
    """Documents of the program that runs this, by name. They count after all files."""
    wake: Callable[[str], None]
    """There may be something to do for this Session."""
    ending: Callable[[], bool]
    """Whether the process is being shut down: what waits for a person then waits on."""
    sandboxes: Backends
    """How this machine can confine commands."""
    sandbox: Setting | None
    """The sandbox mode that the host or the environment chose; None: the user's configuration says it."""
