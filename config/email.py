"""How mail is sent: to the console, or through an SMTP server named by a URL."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parseaddr
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

CONSOLE = "console://"
# The default port by scheme. `smtp+tls` means STARTTLS.
_PORTS = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}
_BACKENDS = "django.core.mail.backends"


@dataclass(frozen=True, repr=False)
class Email:
    """Django's e-mail settings."""

    backend: str
    host: str = ""
    port: int = 25
    user: str = ""
    password: str = ""
    use_tls: bool = False
    use_ssl: bool = False

    @property
    def leaves(self) -> bool:
        """Whether mail goes to a server."""
        return bool(self.host)


def parse_email_url(url: str) -> Email:
    """Return the settings in `smtp+tls://USER:PASSWORD@HOST:PORT`, URL-encoded user and password.

    Raises:
        ValueError: the URL cannot be used; the message quotes nothing of it, as it has a password.
    """
    if url == CONSOLE:
        return Email(f"{_BACKENDS}.console.EmailBackend")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        schemes = ", ".join(f"{scheme}://" for scheme in _PORTS)
        raise ValueError(f"must be {CONSOLE}, or start with one of {schemes}")
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise ValueError("its port must be a number up to 65535") from None
    if not parts.hostname:
        raise ValueError("names no host")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("ends with the port; URL-encode user and password")
    if bool(parts.username) != bool(parts.password):
        raise ValueError("takes user and password together, or neither")
    return Email(
        f"{_BACKENDS}.smtp.EmailBackend",
        host=parts.hostname,
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        use_tls=parts.scheme == "smtp+tls",
        use_ssl=parts.scheme == "smtp+ssl",
    )


def check_sender(sender: str) -> str:
    """Return the sender of our mail, `ADDRESS` or `NAME <ADDRESS>`.

    Raises:
        ValueError: the text is no sender.
    """
    try:
        validate_email(parseaddr(sender)[1])
    except ValidationError:
        raise ValueError("must be an address, or a name with one: Mailroom <a@b.example>") from None
    if not sender.isprintable():
        raise ValueError("must be one line of text")
    return sender
