"""Plain text bodies: format=flowed put together, uuencoded files cut out."""

from __future__ import annotations

import re
from typing import Final

_UU_BEGIN: Final = re.compile(r"begin [0-7]{3,4} (\S.{0,200})\Z")
_UU_LINE: Final = re.compile(r"[ -`]{1,90}\Z")


def unflow(text: str, *, delete_space: bool) -> str:
    """Join the soft line breaks of a format=flowed text (RFC 3676), per quote depth.

    ``delete_space`` is the DelSp parameter: the space before a soft break is not part of the text.
    """
    lines: list[str] = []
    open_depth = -1
    for raw in text.split("\n"):
        content = raw.lstrip(">")
        depth = len(raw) - len(content)
        content = content.removeprefix(" ")
        if depth == open_depth:
            before = lines.pop()
            lines.append((before[:-1] if delete_space else before) + content)
        else:
            lines.append(">" * depth + (" " if depth else "") + content)
        soft = content.endswith(" ") and content != "-- "
        open_depth = depth if soft else -1
    return "\n".join(lines)


def drop_uuencoded(text: str) -> str:
    """Replace uuencoded files by a line that names them."""
    if "begin " not in text:
        return text
    kept: list[str] = []
    skipping = False
    for line in text.split("\n"):
        begin = None if skipping else _UU_BEGIN.match(line)
        if begin is not None:
            skipping = True
            kept.append(f"[uuencoded file: {begin.group(1)}]")
        elif skipping and line == "end":
            skipping = False
        elif not (skipping and _is_uu_line(line)):
            skipping = False
            kept.append(line)
    return "\n".join(kept)


def _is_uu_line(line: str) -> bool:
    """Tell whether the line is data: a count of bytes, then four characters for every three."""
    if _UU_LINE.match(line) is None:
        return False
    octets = (ord(line[0]) - 32) % 64
    return len(line) - 1 <= (octets + 2) // 3 * 4 + 2
