"""Address header fields, read leniently and in one pass.

The standard library's parser differs between Python releases on unquoted commas and recurses into
nested comments; senders are free to write both.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from mail.text.headers import decode_header, recover_bytes
from mail.text.parsed import Address

_GMAIL_DOMAINS: Final = ("gmail.com", "googlemail.com")
_FIELD_CHARS: Final = 100_000
_ADDRESS_CHARS: Final = 320
_NAME_CHARS: Final = 200
_MAX_ADDRESSES: Final = 1_000
_ANGLE: Final = re.compile(r"<\s{0,8}([^<>\s]+)\s{0,8}>\s{0,8}\Z")
_MAX_WRITTEN: Final = 20
# What in a name could be taken for an address or the end of one.
_SPECIAL: Final = re.compile(r'[()<>@,;:\\"]')
_ESCAPED: Final = re.compile(r"\\(.)")


def parse_addresses(values: tuple[str, ...]) -> tuple[Address, ...]:
    """Return the mailboxes of raw header values in order, leaving out what has no ``@``."""
    found: list[Address] = []
    for value in values:
        # Gmail may hand out a decoded name without its quotes: "Novák, Jan <jan@…>" is one person.
        pending = ""
        for piece, comment in _split(recover_bytes(value[:_FIELD_CHARS])):
            name, address = _name_and_address(piece)
            if address:
                one = _address(f"{pending} {name}".strip() or comment, address)
                # A damaged encoding may lose the @ of the address.
                if "@" in one.address:
                    found.append(one)
                pending = ""
            elif piece:
                pending = f"{pending} {piece},".strip()
    return tuple(found[:_MAX_ADDRESSES])


def parse_sender(values: tuple[str, ...]) -> Address:
    """Return the first mailbox of raw From values; without one, their text as the name."""
    found = parse_addresses(values)
    return found[0] if found else Address(decode_header(" ".join(values), _NAME_CHARS), "")


def decode_addresses(value: str) -> str:
    """Return a raw address field as text that parses to the same mailboxes, the first twenty.

    A decoded name that could be taken for an address is quoted.
    """
    found = parse_addresses((value,))[:_MAX_WRITTEN]
    return ", ".join(_written(one) for one in found if not re.search(r"[<>\s]", one.address))


def _written(one: Address) -> str:
    if not one.name:
        return f"<{one.address}>"
    if not _SPECIAL.search(one.name):
        return f"{one.name} <{one.address}>"
    name = one.name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}" <{one.address}>'


def _split(value: str) -> list[tuple[str, str]]:
    """Split an address list at its commas into pairs of (text, comment); drop names of groups.

    A bracket that is never closed, as in `Ann (Sales <ann@…>`, is a character like others;
    otherwise all addresses behind it would be lost.
    """
    pieces, unclosed = _read_list(value, frozenset())
    if unclosed:
        pieces, _ = _read_list(value, unclosed)
    return pieces


def _read_list(value: str, ordinary: Container[int]) -> tuple[list[tuple[str, str]], set[int]]:
    """Return the pieces, and where the brackets are that are never closed."""
    pieces: list[tuple[str, str]] = []
    text: list[str] = []
    comment: list[str] = []
    quoted = escaped = angle = has_at = False
    opened: list[int] = []
    for at, char in enumerate(value):
        target = comment if opened else text
        if escaped or (quoted and char not in '"\\'):
            escaped = False
            target.append(char)
        elif char == "\\":
            escaped = True
            target.append(char)
        elif char == '"' and not opened:
            quoted = not quoted
            target.append(char)
        elif char == "(" and at not in ordinary:
            opened.append(at)
        elif char == ")" and opened:
            opened.pop()
        elif opened:
            target.append(char)
        elif char in ",;" and not angle:
            pieces.append(("".join(text).strip(), "".join(comment).strip()))
            text, comment, has_at = [], [], False
        elif char == ":" and not angle and not has_at:
            text = []
        else:
            has_at = has_at or char == "@"
            angle = char == "<" or (angle and char != ">")
            target.append(char)
    pieces.append(("".join(text).strip(), "".join(comment).strip()))
    return pieces, set(opened)


def _name_and_address(piece: str) -> tuple[str, str]:
    angle = _ANGLE.search(piece)
    if angle is not None and "@" in angle.group(1):
        return _unquote(piece[: angle.start()].strip()), angle.group(1)
    words = piece.replace("<", " ").replace(">", " ").split()
    address = next((word for word in words if "@" in word.strip("@")), "")
    return "", address.strip("\"'")


def _unquote(name: str) -> str:
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    return _ESCAPED.sub(r"\1", name)


def _address(name: str, address: str) -> Address:
    return Address(decode_header(name, _NAME_CHARS), decode_header(address, _ADDRESS_CHARS))


def untagged(address: str) -> str:
    """Return the address without the part after a plus sign, which ticket systems vary."""
    local, _, domain = address.rpartition("@")
    return f"{local.partition('+')[0] or local}@{domain}"


def inbox_of(address: str) -> str:
    """Return what the addresses of one inbox have in common: no tag, and in Gmail's domains no dots.

    Source: https://support.google.com/mail/answer/7436150
    """
    local, _, domain = untagged(address).rpartition("@")
    if domain not in _GMAIL_DOMAINS:
        return f"{local}@{domain}"
    return f"{local.replace('.', '')}@{_GMAIL_DOMAINS[0]}"
