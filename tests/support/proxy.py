"""A network between loopback and this process's PostgreSQL server, which fails on demand."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from urllib.parse import quote

from django.db import connection

from tests.postgres import Server
from tests.support.wire import Conversation

CHUNK_BYTES = 65_536
UPSTREAM_SECONDS = 10

# <asm-generic/socket.h>; Python names neither.
SO_ATTACH_FILTER = 26
SO_DETACH_FILTER = 27
# One instruction, `return 0`: the kernel drops each packet before it acknowledges it.
DROP_ALL = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))


class Proxy:
    """Passes on all that clients and the server send, until a method says otherwise.

    What was lost stays lost; what was held is delivered later.
    """

    def __init__(self) -> None:
        params = connection.get_connection_params()
        self._host, self._port = str(params.get("host", "localhost")), params.get("port") or 5432
        login = quote(str(params["user"]))
        if params.get("password"):
            login += f":{quote(str(params['password']), safe='')}"
        self._listening = socket.create_server(("127.0.0.1", 0))
        place = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.url = f"postgres://{login}@{place}/{quote(str(params['dbname']))}?sslmode=disable&gssencmode=disable"
        self._links: list[_Link] = []
        self._changing = threading.Lock()
        self.refusing = False
        self.flowing = threading.Event()
        self.flowing.set()
        self.delay_seconds = (0.0, 0.0)
        self.rng = Random(3)
        self.fatal_word = ""
        self._losses: list[_Loss] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def slow_down(self, least: float, most: float) -> None:
        """Let every answer take between `least` and `most` seconds longer."""
        self.delay_seconds = (least, most)

    def hold(self) -> None:
        """Hold everything back; both ends see a network that works."""
        self.flowing.clear()

    def vanish(self) -> None:
        """Lose every packet from now on, as with a pulled cable: neither end is told."""
        self.flowing.clear()
        drop = struct.pack("HP", 1, ctypes.addressof(DROP_ALL))
        for one in self._sockets():
            one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, drop)

    def refuse(self) -> None:
        """Cut every connection, and each new one."""
        self.refusing = True
        self.reset()

    def lead_to(self, server: Server) -> None:
        """Connect new clients to this server from now on."""
        self._host, self._port = server.place

    def vanish_before_commit_of(self, word: str) -> None:
        """Call `vanish` when a client commits a transaction with `word` in it; that stays open."""
        self.fatal_word = word

    def heal(self) -> None:
        """Pass on everything again."""
        self.refusing = False
        self.delay_seconds = (0.0, 0.0)
        for one in self._sockets():
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        self.flowing.set()

    def reset(self) -> None:
        """Cut every connection."""
        for link in self._take_links():
            link.reset()

    def lose_answers(self, word: str, *, times: int = 1, share: float = 1.0) -> None:
        """Cut connections on which a transaction with `word` in it was committed.

        The server has committed, but the answer never arrives. That happens `times` times, to this
        share of the commits. They are drawn, because every n-th commit could always be of the same
        statement.
        """
        with self._changing:
            self._losses.append(_Loss(word, times, share))

    @property
    def answers_to_lose(self) -> int:
        """How many answers are still to be lost."""
        with self._changing:
            return sum(loss.times for loss in self._losses)

    def loses(self, statements: Sequence[str]) -> bool:
        """Say whether the answer to a commit of these statements is lost."""
        with self._changing:
            met = [loss.meets(statements, self.rng) for loss in self._losses]
            return any(met)

    def close(self) -> None:
        """Cut every connection, and stop listening."""
        self._listening.close()
        self.heal()
        self.reset()

    def _sockets(self) -> list[socket.socket]:
        with self._changing:
            return [self._listening, *(link.client for link in self._links)]

    def _take_links(self) -> list[_Link]:
        with self._changing:
            links, self._links = self._links, []
            return links

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            with suppress(OSError):
                self._pass_on(_Link(self, client, self._connect()))

    def _pass_on(self, link: _Link) -> None:
        with self._changing:
            # The client may have connected while the other connections are cut.
            refused = self.refusing
            if not refused:
                self._links.append(link)
        if refused:
            link.reset()
        else:
            link.start()

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, int(self._port)), UPSTREAM_SECONDS)
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return upstream


@dataclass
class _Loss:
    """A number of answers that are still to be lost."""

    word: str
    times: int
    share: float

    def meets(self, statements: Sequence[str], rng: Random) -> bool:
        """Draw whether the answer to this commit is lost."""
        if not self.times or not any(self.word in statement for statement in statements):
            return False
        if rng.random() >= self.share:
            return False
        self.times -= 1
        return True


class _Link:
    """A client's connection, and the connection to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self._server = server
        self._proxy = proxy
        self._conversation = Conversation()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.settimeout(None)

    def start(self) -> None:
        """Pass on data in both directions, each on its own thread."""
        for work in (self._ask, self._answer):
            threading.Thread(target=self._until_cut, args=[work], daemon=True).start()

    def reset(self) -> None:
        """Cut both connections; the client's ends with a reset."""
        with suppress(OSError):
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for one in (self.client, self._server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RD)
            one.close()

    def _until_cut(self, work: Callable[[], None]) -> None:
        with suppress(OSError):
            work()
        self.reset()

    def _ask(self) -> None:
        while data := self.client.recv(CHUNK_BYTES):
            word = self._proxy.fatal_word
            self._conversation.ask(data)
            if word and self._conversation.wants_commit_of(word):
                self._proxy.fatal_word = ""
                self._proxy.vanish()
            self._proxy.flowing.wait()
            self._server.sendall(data)

    def _answer(self) -> None:
        while data := self._server.recv(CHUNK_BYTES):
            time.sleep(self._proxy.rng.uniform(*self._proxy.delay_seconds))
            self._proxy.flowing.wait()
            for answer in self._conversation.answer(data):
                if answer.committed and self._proxy.loses(answer.committed):
                    return
                self.client.sendall(answer.raw)


@contextmanager
def proxied() -> Iterator[Proxy]:
    """Run a proxy inside the block."""
    proxy = Proxy()
    try:
        yield proxy
    finally:
        proxy.close()
