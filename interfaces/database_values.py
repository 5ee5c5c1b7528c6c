"""Finds the values that the messages of databases quote: they may be of a payload.

The names of tables and columns stay, as do the parts of statements that have no values.
"""

from __future__ import annotations

import re

# A value that PostgreSQL quotes may contain quotes and newlines: it ends with a quote at the end of
# a line, or where another part of the message begins.
_ITS_NEWLINE = r"\n(?!LINE [\d\[]|CONTEXT: |Traceback |\nThe above |\nDuring |  File \")"
# A value in the middle of a line ends before the other parts of the message.
_NEWLINE_BEFORE_ITS_END = _ITS_NEWLINE.replace("(?!", "(?!DETAIL: |HINT: |QUERY: |", 1)
_TO_ITS_END = rf"(?:[^\n]|{_ITS_NEWLINE}){{0,8000}}"
_QUOTED = rf"\"(?:[^\"\n]|\"(?!\n|\Z)|{_ITS_NEWLINE}){{0,8000}}\"?"

# Each pattern begins with a plain text, which Python searches for many times as fast as for others.

# What is said before a value that is quoted at the end of a line.
_BEFORE_A_VALUE = (
    r" input syntax for type [^\n\"]{1,60}: ",
    r"invalid input value for enum [\w.$\" ]{1,140}: ",
    r" out of range: ",
    r"malformed (?:array|range|multirange|record) literal: ",
    r" in ts(?:query|vector): ",
    r"invalid cidr value: ",
    r"invalid octet value in \"macaddr8?\" value: ",
    r"invalid value for parameter \"[^\"\n]{1,70}\": ",
    r"datetime format is not recognized: ",
    r"path element at position \d{1,9} is not an integer: ",
    r"duplicate JSON object key value: ",
    r"JSON object does not contain key ",
    r"cross-database references are not implemented: ",
    r"string is not a valid identifier: ",
    r"unrecognized encoding: ",
    r"unrecognized privilege type: ",
    r"invalid source encoding name ",
    r"invalid destination encoding name ",
    r"COPY [^\n\":]{1,150}, line \d{1,20}(?:, column [^\n\":]{1,70})?: ",
    r"fts5: syntax error near ",
    r"SQL statement ",
    r"SQL expression ",
)
# What is said before and after a value that is quoted in the middle of a line. A word or a sign of a
# statement is no value.
_WORD_OR_SIGN = r"\"(?:[A-Za-z_]\w{0,62}|[^\w\s'$\"]{1,3})\""
_AROUND_A_VALUE = (
    (rf"near (?!{_WORD_OR_SIGN})", r": syntax error"),
    (r"time zone ", r" not recognized"),
    (r"units? ", r" not (?:recognized|supported)"),
    (r"invalid value ", r" for \""),
    (r"argument ", r" of jsonpath item method "),
)
# A cast to `regclass` and the like quotes its value as a missing table is named. It is a name if
# the statement, as far as it is shown, has it outside of its literals.
_NAMED = (
    "relation ",
    "type ",
    "function ",
    "schema ",
    "collation ",
    "text search configuration ",
    "text search dictionary ",
    # Of a connection that was refused.
    "role (?<!FATAL:  role )",
)
_NAME = rf"(?!\" for encoding )(?:[^\n]|{_NEWLINE_BEFORE_ITS_END})"
_MISSING = r" (?:for encoding \"[^\"\n]{1,40}\" )?does not exist"
_IN_THE_STATEMENT = (
    r"\nLINE (?:\[redacted\]|\d{1,9}: (?:[^'\n]|'[^'\n]{0,200}'){0,200}?"
    r"(?<!\w)(?i:(?P=name))(?!\w))"
)


def _after(before: str, value: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<before>{before}){value}")


def _around(before: str, after: str, value: str, but_not: str = "") -> re.Pattern[str]:
    """Return the pattern of a quoted value; it runs in linear time, as no two searches overlap."""
    name = rf"\"(?P<name>(?:(?!{before}\"){value}){{0,8000}}?)\""
    return _after(before, rf"{name}(?={after}){but_not}")


DATABASE_VALUES = (
    # The whole row that breaks a constraint, where no row level security hides it.
    _after("ailing row contains ", r"\((?:[^)]|\)(?!\.(?:\n|\Z))){0,20000}(?:\)\.)?"),
    # Before the statement's line is hidden, which is looked into.
    *(_around(one, _MISSING, _NAME, rf"(?!{_MISSING}{_IN_THE_STATEMENT})") for one in _NAMED),
    *(_after(one, _QUOTED) for one in _BEFORE_A_VALUE),
    *(
        _around(before, after, rf"(?:[^\n]|{_NEWLINE_BEFORE_ITS_END})")
        for before, after in _AROUND_A_VALUE
    ),
    # Only what can be read as a number is out of range.
    re.compile(r"\"[\w\s.+-]{1,8000}\"(?= is out of range for type )"),
    _after(r"\(too many dotted names\): ", r"[^\n]{1,8000}"),
    # An operator that is missing for its types has a sign.
    _after(
        "operator does not exist: ",
        r"(?:(?!operator does not exist: )[^\n!#%&*+/<=>?@^`|~-]){1,8000}(?=\n|\Z)",
    ),
    _after(" at or near ", rf"(?!{_WORD_OR_SIGN}){_QUOTED}"),
    # The statement's line, if it has a literal.
    _after(r"\nLINE ", r"\d{1,9}: (?=[^'\n]{0,200}?(?:'|\$\w{0,20}\$))[^\n]{0,2000}"),
    # The statement of a function, whole.
    _after(r"\nQUERY:  ", _TO_ITS_END),
    _after(
        r"portal (?:\"[^\"\n]{1,70}\" )?(?:with parameters: |parameter )\$\d{1,5} = ",
        rf"(?!'\.\.\.'){_TO_ITS_END}",
    ),
    _after(r"\nCONTEXT:  JSON data, ", r"[^\n]{0,2000}"),
    _after(
        r"\nDETAIL:  Key ",
        rf"\((?:[^.\n]|\.(?!\n|\Z)|(?<!already exists)(?<![\")])\.|{_ITS_NEWLINE}){{0,8000}}\.?",
    ),
    _after(r"\nDETAIL:  Token ", r"\"[^\n]{0,8000}"),
    _after(r"\nDETAIL:  Expected ", r"[^\n]{0,300}but found \"[^\n]{0,8000}"),
    # XML that cannot be read is quoted below the place of its mistake.
    _after(r"\nDETAIL:  line ", rf"\d{{1,9}}: {_TO_ITS_END}"),
)
