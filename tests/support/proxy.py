"""A network that fails on demand, between loopback and the PostgreSQL of this process."""

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
# One instruction, `return 0`: the kernel throws away whatever arrives, before it acknowledges it.
DROP_ALL = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))


class Proxy:
    """Passes on all that clients and the server say, until it is told otherwise.

    What was lost stays lost; what was held comes later.
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
        """Let nothing through; the network is fine, as seen from both ends."""
        self.flowing.clear()

    def vanish(self) -> None:
        """Lose every packet from now on, as a pulled cable does: nobody is told."""
        self.flowing.clear()
        drop = struct.pack("HP", 1, ctypes.addressof(DROP_ALL))
        for one in self._sockets():
            one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, drop)

    def refuse(self) -> None:
        """Cut every connection there is, and each new one."""
        self.refusing = True
        self.reset()

    def lead_to(self, server: Server) -> None:
        """Connect new clients to this server from now on."""
        self._host, self._port = server.place

    def vanish_before_commit_of(self, word: str) -> None:
        """Do so when a client wants to commit a transaction with `word` in it: it stays open."""
        self.fatal_word = word

    def heal(self) -> None:
        """Pass everything on again, at once."""
        self.refusing = False
        self.delay_seconds = (0.0, 0.0)
        for one in self._sockets():
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        self.flowing.set()

    def reset(self) -> None:
        """Cut every connection there is."""
        for link in self._take_links():
            link.reset()

    def lose_answers(self, word: str, *, times: int = 1, share: float = 1.0) -> None:
        """Cut connections on which a transaction with `word` in it was committed.

        The server has done it; its answer never arrives. That happens `times` times, to so large
        a share of them, drawn by lot: what comes in turn could always meet the same statement.
        """
        with self._changing:
            self._losses.append(_Loss(word, times, share))

    @property
    def answers_to_lose(self) -> int:
        """How many are still to be lost."""
        with self._changing:
            return sum(loss.times for loss in self._losses)

    def loses(self, statements: Sequence[str]) -> bool:
        """Say whether the answer to the commit of these statements is to be lost."""
        with self._changing:
            met = [loss.meets(statements, self.rng) for loss in self._losses]
            return any(met)

    def close(self) -> None:
        """Cut everything and listen no more."""
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
            # It may have come while those that were there are cut.
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
    """Answers that are still to be lost."""

    word: str
    times: int
    share: float

    def meets(self, statements: Sequence[str], rng: Random) -> bool:
        """Draw whether this commit is one of them."""
        if not self.times or not any(self.word in statement for statement in statements):
            return False
        if rng.random() >= self.share:
            return False
        self.times -= 1
        return True


class _Link:
    """One client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self._server = server
        self._proxy = proxy
        self._conversation = Conversation()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.settimeout(None)

    def start(self) -> None:
        """Pass on in both directions, on a thread each."""
        for work in (self._ask, self._answer):
            threading.Thread(target=self._until_cut, args=[work], daemon=True).start()

    def reset(self) -> None:
        """Cut both connections, the client's with a reset."""
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
