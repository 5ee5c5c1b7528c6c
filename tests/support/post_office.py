"""An e-mail backend that records the mails it takes, and that a test can stop on the way."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from tests.support.waiting import LOOK_SECONDS

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class PostOffice:
    """The mails that the backends of all processes have taken, and the places where they stop."""

    folder: Path

    def open(self) -> PostOffice:
        """Create the folder."""
        self.folder.mkdir()
        return self

    def stop(self, where: str) -> None:
        """Let every later mail wait at this place: before it is taken, or after."""
        (self.folder / where).touch()

    def go_on(self, where: str) -> None:
        """Let mails pass this place again."""
        (self.folder / where).unlink()

    @property
    def taken(self) -> list[tuple[str, str]]:
        """Message-ID and subject of each mail that was taken, oldest first."""
        return [(line.split("\t")[0], line.split("\t")[1]) for line in self._lines("taken")]

    @property
    def waiting(self) -> list[str]:
        """The Message-IDs of the mails that had to wait."""
        return self._lines("waited")

    def take(self, message: EmailMessage) -> None:
        """Take one mail, and wait where the test has stopped mails."""
        message_id = message.extra_headers["Message-ID"]
        self._wait(BEFORE, message_id)
        self._note("taken", f"{message_id}\t{message.subject}")
        self._wait(AFTER, message_id)

    def _wait(self, where: str, message_id: str) -> None:
        if (self.folder / where).exists():
            self._note("waited", message_id)
            while (self.folder / where).exists():
                time.sleep(LOOK_SECONDS)

    def _note(self, name: str, line: str) -> None:
        # Several processes append, each with a single write.
        file = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        # Only lines with an end are complete.
        return path.read_text("utf-8").split("\n")[:-1] if path.exists() else []


class EmailBackend(BaseEmailBackend):
    """The e-mail backend for Django."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Take these mails."""
        for message in email_messages:
            PostOffice(settings.EMAIL_FOLDER).take(message)
        return len(email_messages)
