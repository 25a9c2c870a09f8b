"""Serves a runtime on a port, and on a Unix socket for the clients of this machine."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from holdfast.client.credential import credential_file, given_password, username
from holdfast.client.discovery import WITHOUT_PORT
from holdfast.core.config.limits import configured_limits
from holdfast.core.config.node import configured_node
from holdfast.core.config.node import is_node_address as is_node_address
from holdfast.core.config.server_names import HOST_EXPECTED as HOST_EXPECTED
from holdfast.core.config.server_names import ORIGIN_EXPECTED as ORIGIN_EXPECTED
from holdfast.core.config.server_names import configured_names
from holdfast.core.config.server_names import is_host_name as is_host_name
from holdfast.core.config.server_names import is_origin as is_origin
from holdfast.core.database.info import ROLE_FIX, superuser_problem
from holdfast.core.location.report import report_of
from holdfast.core.observe.log_context import fields
from holdfast.core.runtime.runtime import HostOptions, Runtime
from holdfast.core.session.nodes import NodeInfo
from holdfast.core.session.roots import usable_roots as usable_roots
from holdfast.core.session.secret_file import SecretFile
from holdfast.embedded.credential import generated_password
from holdfast.embedded.http_server import HttpServer, server_config
from holdfast.embedded.listening import WILDCARDS, accepted_hosts, listen, reached_address, url_of
from holdfast.embedded.listening import is_loopback as is_loopback
from holdfast.embedded.node_calls import NodeCalls
from holdfast.embedded.peer_sources import peer_source
from holdfast.embedded.peers import Peers
from holdfast.embedded.registration import registered
from holdfast.embedded.service_manager import READY, STOPPING, ServiceManager
from holdfast.schema.deferred import load_next
from holdfast.schema.frozen import Frozen
from holdfast.schema.version import __version__
from holdfast.server.app import App
from holdfast.server.auth import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from holdfast.schema.configuration import ConfigReport
    from holdfast.server.pty_environment import HostPtyEnvironment

log = logging.getLogger(__name__)


class Served(Frozen):
    url: str
    page: str
    """Where a browser on this machine opens the page."""
    credential: Path | None
    """The file with the generated password, if one was generated."""


class Serving(Frozen):
    """The options of `holdfast serve`."""

    hostname: str = "127.0.0.1"
    port: int | None = None
    """None: the first free port from the default upwards."""
    local: bool = False
    """Listen on no port, only on the private socket, and end when nobody needs the server any more."""
    idle: float = 30.0
    """Of a local server: for how many seconds nobody was connected and nothing executed when it ends."""
    authorize: bool = True
    hosts: tuple[str, ...] = ()
    """Further accepted host names, such as that of a proxy."""
    origins: tuple[str, ...] = ()
    """Further origins whose pages may send changing requests."""
    trust: bool = False
    """Trust the configuration of every project that is opened."""
    sandbox: Literal["off", "read-only", "workspace"] | None = None
    """How commands are confined; None: as the environment and the user's configuration say."""
    pty_environment: HostPtyEnvironment | None = None
    """Variables for every terminal, or a function that returns them."""
    recover: bool = True
    """Continue work that other processes leave unfinished, as configured."""
    drain: float = 0
    """How many seconds SIGTERM waits for turns to end and hands Sessions over; 0 stops them at once."""
    most: int | None = None
    """How many Sessions are executed at once; None: without a limit."""
    roots: tuple[str, ...] | None = None
    """Directories whose Sessions are executed here, some with a label, as in `core/session/roots.py`; None: all that
    exist."""
    name: str | None = None
    address: str | None = None
    """Where other nodes reach this one, if not at the address it listens on."""


async def serve(
    asked: Serving,
    *,
    ready: Callable[[Served], None],
    ending: Callable[[], None] | None = None,
    reported: Callable[[ConfigReport], None] = lambda report: None,
    reloaded: Callable[[Sequence[str]], None] = lambda failed: None,
) -> int:
    """Serve until a signal, at which `ending` is called. `reported` gets the report about the configuration of this
    directory soon after the start. SIGHUP reloads the configuration of all open Locations; `reloaded` gets one line for
    each that failed."""
    manager = ServiceManager(os.environ)
    environment = dict(os.environ)
    node, limits = configured_node(environment), configured_limits(environment)
    names = configured_names(environment)
    with _password(environment, authorize=asked.authorize) as password:
        generated = password is not None and given_password(environment) is None
        credentials = Credentials(password, username(environment), generated) if password is not None else None
        listener = listen(asked.hostname, asked.port) if not asked.local else None
        host, number = listener.getsockname()[:2] if listener is not None else ("localhost", 0)
        async with Runtime(options=HostOptions(trust=asked.trust, protect=True, sandbox=asked.sandbox)) as runtime:
            if number:
                runtime.own_ports.add(number)
            if (problem := await superuser_problem(runtime.database)) is not None:
                log.warning("%s; %s", problem, ROLE_FIX)
            runtime.log.relay.links = Peers(runtime.log.relay, peer_source(runtime, environment))
            runtime.node_secrets.file = SecretFile(node.secret_file) if node.secret_file is not None else None
            address = asked.address or node.address or reached_address(host, number) if not asked.local else None
            hosts = accepted_hosts(
                asked.hostname, (*names.hosts, *asked.hosts, urlsplit(address or "").hostname or "localhost")
            )
            app = App(
                runtime,
                credentials=credentials,
                hosts=hosts,
                origins=frozenset((*names.origins, *asked.origins)),
                limits=limits,
                pty_environment=asked.pty_environment,
                other_nodes=NodeCalls(runtime.nodes, runtime.node_secrets),
                started=False,
            )
            near = url_of(WILDCARDS.get(host, host), number) if not asked.local else WITHOUT_PORT
            roots = asked.roots or node.roots
            runtime.placement.limit(roots=roots, most=asked.most or limits.drains)
            runtime.limit_pending_inputs(limits.pending_inputs)
            name = asked.name or node.name or f"{socket.gethostname()}:{number or os.getpid()}"
            about = NodeInfo(name=name, address=address, roots=roots)
            await runtime.takeover.start(about, recover=asked.recover)
            with registered(
                environment, id=runtime.new_event_id(), url=near, data=runtime.paths.data, store=runtime.store_identity
            ) as local:
                file = credential_file(environment) if generated else None
                served = Served(url_of(host, number), f"{near}/", file)
                async with _Background() as background:

                    def listening() -> None:
                        app.probes.started = True
                        log.info(
                            "started", extra=fields(version=__version__, url=served.url, node=name, pid=os.getpid())
                        )
                        ready(served)
                        manager.tell(READY)
                        background.start(load_deferred())
                        background.start(_keep_policy(runtime))

                    async def drain() -> None:
                        manager.tell(STOPPING)
                        await _drain(runtime, asked.drain)

                    def ends() -> None:
                        manager.tell(STOPPING)
                        if ending is not None:
                            ending()

                    server = HttpServer(
                        server_config(app),
                        app,
                        ready=listening,
                        ending=ends,
                        hung_up=lambda: background.start(_reload(runtime, reloaded)),
                        drain=drain if asked.drain else None,
                    )
                    background.start(_report(runtime, reported))
                    if asked.local:
                        background.start(_end_when_unused(server, runtime, asked.idle))
                    await server.serve(sockets=[local] if listener is None else [listener, local])
    log.info("stopped")
    return 0


async def _end_when_unused(server: HttpServer, runtime: Runtime, seconds: float) -> None:
    """End the server as a signal does, once nobody was connected and no Session was executed for so long. Other
    processes are waited for as long as they work: they may hand their Sessions over."""
    unused_since: float | None = None
    while True:
        await asyncio.sleep(min(1.0, seconds / 4))
        if server.server_state.connections or runtime.execution.is_executing:
            unused_since = None
        elif unused_since is None:
            unused_since = time.monotonic()
        elif time.monotonic() - unused_since >= seconds:
            server.handle_exit(signal.SIGTERM, None)
            return


class _Background:
    """Tasks beside the server, cancelled when it ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def __aexit__(self, *_: object) -> None:
        for task in (tasks := tuple(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def load_deferred() -> None:
    """Import the deferred modules one by one, so that requests are answered in between and none of them imports."""
    while load_next():  # noqa: ASYNC110 - lets requests run; there is nothing to wait for
        await asyncio.sleep(0)


async def _keep_policy(runtime: Runtime) -> None:
    """Complete purges and apply the retention policy, from time to time."""
    await runtime.retention.regularly()


async def _report(runtime: Runtime, reported: Callable[[ConfigReport], None]) -> None:
    try:
        async with runtime.locations.use(runtime.location) as services:
            report = await report_of(services)
    except Exception as error:  # noqa: BLE001 - requests for this Location fail with the same error
        log.error("the configuration of %s cannot be read: %s", runtime.location.directory, error)
    else:
        reported(report)


async def _reload(runtime: Runtime, reloaded: Callable[[Sequence[str]], None]) -> None:
    if runtime.node_secrets.file is not None:
        runtime.node_secrets.file.read_again()
    failed = await runtime.reload()
    reloaded([f"{location.directory}: {error}" for location, error in failed.items()])


async def _drain(runtime: Runtime, seconds: float) -> None:
    """Hand everything over that can be stopped between two turns."""
    log.info("draining", extra=fields(seconds=seconds))
    runtime.placement.draining = True
    await runtime.takeover.stop()
    await runtime.execution.drain(seconds)
    log.info("drained", extra=fields(left=runtime.execution.is_executing))


def _password(environment: dict[str, str], *, authorize: bool) -> AbstractContextManager[str | None]:
    if not authorize:
        return nullcontext()
    given = given_password(environment)
    return generated_password(environment) if given is None else nullcontext(given)


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of uvloop's event loops if uvloop is installed: idling and streaming cost less on them."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
