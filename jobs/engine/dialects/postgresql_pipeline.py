"""Sends several statements in one message, as one transaction, and reads their answers.

psycopg's own pipeline sends each statement by itself and polls the socket before each. For the few
statements of a claim that costs more than all the rest, and wakes the server for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import FeatureNotSupported, InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.waiting import Ready, Wait

from jobs.engine.dialects.base import Answer, Statement

PLACEHOLDER = re.compile("%(.)")


class Pipeline:
    """Runs statements on one connection, and knows what was prepared there.

    The statements' texts are kept, so they must hardly ever change.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._client = connection.pgconn
        self._known: dict[str, _Known] = {}
        self._numbers = count()

    def run(self, statements: Sequence[Statement]) -> list[Answer]:
        """Run these as one transaction, with none open; return the answer to each.

        Raises:
            psycopg.Error: nothing was written; or the connection was lost, and nobody knows.
        """
        with self.connection.lock:
            try:
                try:
                    return self.connection.wait(self._run(statements))
                except (InvalidSqlStatementName, FeatureNotSupported):
                    # After a rollback psycopg deallocates all prepared statements, and a migration
                    # can change what a statement returns. Nothing was written, so the statements
                    # are sent again.
                    self._known.clear()
                    return self.connection.wait(self._run(statements))
            finally:
                if self._client.pipeline_status != pq.PipelineStatus.OFF:
                    # The run was interrupted, so answers are still to come.
                    self.connection.close()

    def _run(self, statements: Sequence[Statement]) -> PQGen[list[Answer]]:
        # Encoded before anything is sent, because a value may be refused.
        encoded = [self._encoded(sql, params) for sql, params in statements]
        self._client.enter_pipeline_mode()
        prepared = [self._send(one) for one in encoded]
        self._client.pipeline_sync()
        while self._client.flush():
            if (yield Wait.RW) & Ready.R:
                self._client.consume_input()
        results = iter((yield from self._results()))
        self._client.exit_pipeline_mode()
        answers = []
        for one, name in zip(encoded, prepared, strict=True):
            if name is not None:
                self._check(next(results))
                one.known.names[one.types] = name
            answers.append(one.known.load(self._check(next(results))))
        # The commit comes after the last statement; its error is one more result.
        for result in results:
            self._check(result)
        return answers

    def _encoded(self, sql: str, params: Sequence[Any]) -> _Encoded:
        known = self._known.get(sql)
        if known is None:
            known = self._known[sql] = _Known(sql, self.connection)
        return known.encoded(params)

    def _send(self, one: _Encoded) -> bytes | None:
        """Send the statement, after preparing it if necessary: then return its new name."""
        query, client = one.known.query, self._client
        if self.connection.prepare_threshold is None:
            # A pooler gives each transaction another session, so nothing is prepared.
            client.send_query_params(query, one.values, one.types, one.formats, Format.BINARY)
            return None
        name, new = one.known.names.get(one.types), None
        if name is None:
            name = new = f"mailroom_{next(self._numbers)}".encode()
            client.send_prepare(name, query, one.types)
        client.send_query_prepared(name, one.values, one.formats, Format.BINARY)
        return new

    def _results(self) -> PQGen[list[PGresult]]:
        """Return the results of all that was sent."""
        results: list[PGresult] = []
        while True:
            ends = 0
            # A None follows each result. Two in a row mean that nothing more has arrived.
            while ends < 2 and not self._client.is_busy():
                result = self._client.get_result()
                if result is None:
                    ends += 1
                elif result.status == ExecStatus.PIPELINE_SYNC:
                    return results
                else:
                    ends = 0
                    results.append(result)
            if (yield Wait.R):
                self._client.consume_input()

    def _check(self, result: PGresult) -> PGresult:
        if result.status not in {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK}:
            raise error_from_result(result, self.connection.info.encoding)
        return result


class _Encoded(NamedTuple):
    """A statement with its parameters as they are sent."""

    known: _Known
    values: Sequence[Buffer | None]
    types: tuple[int, ...]
    formats: Sequence[Format]


class _Known:
    """A statement as the server knows it, and how its values are encoded.

    `names` are those under which it is prepared, by the types of its parameters.
    """

    def __init__(self, sql: str, connection: psycopg.Connection[Any]) -> None:
        formats: list[PyFormat] = []

        def placeholder(match: re.Match[str]) -> str:
            if match[1] == "%":
                return "%"
            formats.append(PyFormat(match[1]))
            return f"${len(formats)}"

        self.query = PLACEHOLDER.sub(placeholder, sql).encode()
        self._coder = Transformer(connection)
        self.names: dict[tuple[int, ...], bytes] = {}
        self._formats = formats

    def encoded(self, params: Sequence[Any]) -> _Encoded:
        """Return it with these parameters."""
        coder = self._coder
        values = coder.dump_sequence(params, self._formats)
        return _Encoded(self, values, coder.types or (), coder.formats or ())

    def load(self, result: PGresult) -> Answer:
        """Decode its rows."""
        touched = result.command_tuples or 0
        if result.status != ExecStatus.TUPLES_OK:
            return Answer([], touched)
        self._coder.set_pgresult(result)
        return Answer(self._coder.load_rows(0, result.ntuples, tuple), touched)
