"""Serves a runtime with uvicorn on a port, and on a Unix socket for the clients of this machine.

After a signal, connections and streams are closed within a few seconds, whatever the clients do."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import socket
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

import uvicorn

from holdfast.client.credential import credential_file, given_password, username
from holdfast.client.discovery import WITHOUT_PORT
from holdfast.core.config.limits import configured_limits
from holdfast.core.config.node import configured_node
from holdfast.core.config.node import is_node_address as is_node_address
from holdfast.core.config.server_names import HOST_EXPECTED as HOST_EXPECTED
from holdfast.core.config.server_names import ORIGIN_EXPECTED as ORIGIN_EXPECTED
from holdfast.core.config.server_names import configured_names, host_name
from holdfast.core.config.server_names import is_host_name as is_host_name
from holdfast.core.config.server_names import is_origin as is_origin
from holdfast.core.location.report import report_of
from holdfast.core.observe.log_context import fields
from holdfast.core.runtime.runtime import HostOptions, Runtime
from holdfast.core.session.nodes import NodeInfo
from holdfast.core.session.roots import usable_roots as usable_roots
from holdfast.core.session.secret_file import SecretFile
from holdfast.embedded.connection import Connection
from holdfast.embedded.credential import generated_password
from holdfast.embedded.node_calls import NodeCalls
from holdfast.embedded.peer_sources import peer_source
from holdfast.embedded.peers import Peers
from holdfast.embedded.registration import registered
from holdfast.embedded.service_manager import READY, STOPPING, ServiceManager
from holdfast.embedded.unauthenticated import LIMIT, MOST, UnauthenticatedConnections
from holdfast.schema.deferred import load_next
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen
from holdfast.schema.version import __version__
from holdfast.server.app import App
from holdfast.server.auth import LOOPBACK_HOSTS, Credentials, Hosts
from holdfast.server.pty import SOCKET_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import FrameType

    from holdfast.schema.configuration import ConfigReport
    from holdfast.server.pty_environment import HostPtyEnvironment

GRACE_SECONDS = 2
"""How long connections may take to end after a signal."""
IDLE_SECONDS = 5
"""How long a connection is kept open between two requests."""
BACKLOG = 256
"""Connections that the system accepts before the server does."""
FIRST_REQUEST_SECONDS = 0.5
"""How long a server that ends waits for the first request of a connection."""
DEFAULT_PORT = 4096
PORTS_TRIED = 100
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that are not addresses to connect to, with the one that local clients use instead."""

log = logging.getLogger(__name__)


class Served(Frozen):
    url: str
    page: str
    """Where a browser on this machine opens the page."""
    credential: Path | None
    """The file with the generated password, if one was generated."""


class _Server(uvicorn.Server):
    """Closes the application before it waits for connections: streams never end by themselves, and turns take long."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: App,
        *,
        ready: Callable[[], None] | None = None,
        ending: Callable[[], None] | None = None,
        hung_up: Callable[[], None] | None = None,
        drain: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`ready` is called when connections are accepted and signals are handled, `ending` at the signal that ends the
        server, `hung_up` at SIGHUP, which ends the server only if its terminal was closed. `drain` runs at SIGTERM
        before the server ends; another signal ends it at once."""
        super().__init__(config)
        self._app = app
        self._ready = ready
        self._ending = ending
        self._hung_up = hung_up
        self._drain = drain
        self._draining: asyncio.Task[None] | None = None
        self._had_terminal = _has_terminal()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let signals end only the server: then the process closes the runtime and exits."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        under_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        loop.add_signal_handler(signal.SIGHUP, partial(self._hang_up, may_go=under_nohup))
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _hang_up(self, *, may_go: bool) -> None:
        """SIGHUP means that the terminal was closed, or asks for a reload. Under nohup the terminal may be closed."""
        if self._had_terminal and not may_go and not _has_terminal():
            self.handle_exit(signal.SIGHUP, None)
        elif self._hung_up is not None:
            self._hung_up()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self._drain is not None and self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drained(self._drain), name="holdfast-drain")
            return
        if not self.should_exit:
            log.info("stopping", extra=fields(signal=signal.Signals(sig).name))
            if self._ending is not None:
                self._ending()
        super().handle_exit(sig, frame)

    async def _drained(self, drain: Callable[[], Awaitable[None]]) -> None:
        try:
            await drain()
        finally:
            self.handle_exit(signal.SIGTERM, None)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._stop_listening(sockets or [])
        await self._app.close()
        await super().shutdown(sockets)

    async def _stop_listening(self, sockets: list[socket.socket]) -> None:
        """Refuse new connections, and let those without a request so far send one: a proxy sends what a server may have
        received to no other."""
        await asyncio.sleep(0)  # takes the connections that wait
        for server in self.servers:
            server.close()
        for each in sockets:
            each.close()
        loop = asyncio.get_running_loop()
        until = loop.time() + FIRST_REQUEST_SECONDS
        while loop.time() < until and any(map(_has_no_request, self.server_state.connections)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


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
        listener = _listen(asked.hostname, asked.port) if not asked.local else None
        host, number = listener.getsockname()[:2] if listener is not None else ("localhost", 0)
        async with Runtime(options=HostOptions(trust=asked.trust, protect=True, sandbox=asked.sandbox)) as runtime:
            if number:
                runtime.own_ports.add(number)
            runtime.log.relay.links = Peers(runtime.log.relay, peer_source(runtime, environment))
            runtime.node_secrets.file = SecretFile(node.secret_file) if node.secret_file is not None else None
            address = asked.address or node.address or _reached(host, number) if not asked.local else None
            hosts = _hosts(
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
            near = _url(WILDCARDS.get(host, host), number) if not asked.local else WITHOUT_PORT
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
                served = Served(_url(host, number), f"{near}/", file)
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

                    server = _Server(
                        _config(app),
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


async def _end_when_unused(server: _Server, runtime: Runtime, seconds: float) -> None:
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


def _has_no_request(connection: object) -> bool:
    """Whether nothing was asked for over a connection yet. A WebSocket began with a request."""
    return getattr(connection, "cycle", connection) is None


async def _drain(runtime: Runtime, seconds: float) -> None:
    """Hand everything over that can be stopped between two turns."""
    log.info("draining", extra=fields(seconds=seconds))
    runtime.placement.draining = True
    await runtime.takeover.stop()
    await runtime.execution.drain(seconds)
    log.info("drained", extra=fields(left=runtime.execution.is_executing))


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _password(environment: dict[str, str], *, authorize: bool) -> AbstractContextManager[str | None]:
    if not authorize:
        return nullcontext()
    given = given_password(environment)
    return generated_password(environment) if given is None else nullcontext(given)


def _config(app: App) -> uvicorn.Config:
    connection: Any = partial(Connection, unauthenticated=_unauthenticated())
    return uvicorn.Config(
        app,
        http=connection,
        log_config=None,
        log_level="error",  # malformed requests are not logged: anybody can send many
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        **SOCKET_OPTIONS,
    )


def _unauthenticated() -> UnauthenticatedConnections:
    """Leave some of the files that this process may open to callers with credentials."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if files == resource.RLIM_INFINITY else min(MOST, max(files * 3 // 4, 2))
    return UnauthenticatedConnections(min(LIMIT, most // 2), most)


def _reached(host: str, port: int) -> str:
    """Where other machines reach a server that listens on this address, as far as that is known."""
    return _url(socket.gethostname() if host in WILDCARDS else host, port)


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _hosts(hostname: str, further: Sequence[str]) -> Hosts:
    """The accepted host names. On a wildcard address any IP address and the machine's own name are accepted: a DNS
    rebinding attack needs a name that the attacker controls. Other names have to be declared."""
    names = LOOPBACK_HOSTS | set(map(host_name, further))
    if not hostname or hostname in WILDCARDS:
        return Hosts(names | {socket.gethostname().lower()}, addresses=True)
    return Hosts(names | {host_name(hostname)})


def is_loopback(hostname: str) -> bool:
    """Whether only this machine can reach a server on that address."""
    if hostname.lower() == "localhost":
        return True
    try:
        return ip_address(hostname).is_loopback
    except ValueError:
        return False


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of uvloop's event loops if uvloop is installed: idling and streaming cost less on them."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _listen(hostname: str, port: int | None) -> socket.socket:
    """Listen on the given port, or on the first free one from the default upwards."""
    if port is not None:
        return _bind(hostname, port)
    for candidate in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED - 1):
        try:
            return _bind(hostname, candidate)
        except AddressUnavailable as error:
            if not error.taken:
                raise
    return _bind(hostname, DEFAULT_PORT + PORTS_TRIED - 1)


def _bind(hostname: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in hostname else socket.AF_INET
    # With its protocol: asyncio turns Nagle's algorithm off for TCP only, and a response would take 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((hostname, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        raise AddressUnavailable(hostname, port, reason, taken=taken) from error
    return listener


class AddressUnavailable(HoldfastError):
    """The address cannot be listened on."""

    def __init__(self, hostname: str, port: int, reason: str, *, taken: bool) -> None:
        super().__init__(f"cannot listen on {hostname}:{port}: {reason}")
        self.taken = taken
