"""The simulator in this process, in place of httplib2.Http."""

from __future__ import annotations

from collections.abc import Mapping

import httplib2

from mail.gmail.simulator.answer import Request
from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.faults import AnswerLost


class SimulatorHttp:
    """What Google's client sends requests through; bound to the mailbox of one address."""

    def __init__(self, simulator: GmailSimulator, address: str) -> None:
        self._simulator = simulator
        self._address = address

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        redirections: int = 0,
        connection_type: object = None,
    ) -> tuple[httplib2.Response, bytes]:
        """Answer one request.

        Raises:
            TimeoutError: an ordered fault lost the answer.
        """
        request = Request(
            verb=method,
            uri=uri,
            body=body.encode() if isinstance(body, str) else body or b"",
            headers={name.lower(): value for name, value in (headers or {}).items()},
        )
        try:
            answer = self._simulator.answer(request, address=self._address)
        except AnswerLost:
            # To the client this must look like a timeout of the network.
            raise TimeoutError("timed out") from None
        response = httplib2.Response({"content-type": "application/json", **answer.headers})
        response.status = answer.status
        return response, answer.body

    def close(self) -> None:
        """Do nothing: there is no connection."""
