"""The conditions of a rule: a tree of `and`, `or` and `not` over six kinds of leaves.

A group is `{"op": "and" | "or" | "not", "children": [...]}`. A leaf is one of

    {"type": "sender_email", "value": "ann@example.org"}      also "*@example.org"
    {"type": "sender_domain", "value": "example.org"}
    {"type": "subject_contains", "value": "invoice"}
    {"type": "subject_regex", "value": "invoice \\d+"}        in RE2's syntax
    {"type": "header_match", "header": "List-Id", "pattern": "billing"}
    {"type": "label_present", "label": "Label_17"}            Gmail's id, or the label's name

Case is ignored except in label ids. A mailbox's rule is stored with label ids, a firm's rule with
label names, which are replaced by the mailbox's ids before matching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

import re2
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from mail.errors import ConditionsInvalid

MAX_DEPTH = 8
MAX_LEAVES = 100
MAX_PATTERN_BYTES = 1 << 20
# The headers of a private mailbox's mail that everybody in the firm may see.
PUBLIC_HEADERS = frozenset({"from", "to", "cc", "message-id"})


def compile_pattern(pattern: str) -> Any:
    """Compile the pattern with RE2, so that it takes linear time on any text.

    Raises:
        ValueError: it is no pattern, or uses what RE2 leaves out (lookaround, backreferences).
    """
    try:
        return _compile(pattern)
    except re2.error as error:
        reason = error.args[0]
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"cannot be used as a pattern: {reason}") from None


@lru_cache(maxsize=1000)
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    return re2.compile(pattern, options)


def _checked_pattern(pattern: str) -> str:
    compile_pattern(pattern)
    return pattern


def _address(value: str) -> str:
    local, _, domain = value.rpartition("@")
    if not local or not domain or any(character.isspace() for character in value):
        raise ValueError("is no address, such as ann@example.org, nor *@ and a domain")
    if "*" in value and (local != "*" or "*" in domain):
        raise ValueError("takes a * for the whole part before the @ only")
    return value


def _domain(value: str) -> str:
    if "@" in value or "*" in value or any(character.isspace() for character in value):
        raise ValueError("is no domain, such as example.org")
    return value


Text = Annotated[
    str,
    # A single line, because it is shown and edited as one.
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$"
    ),
]
Lower = Annotated[Text, StringConstraints(to_lower=True)]
Address = Annotated[Lower, AfterValidator(_address)]
Domain = Annotated[Lower, AfterValidator(_domain)]
Pattern = Annotated[Text, AfterValidator(_checked_pattern)]
HeaderName = Annotated[Text, StringConstraints(pattern=r"^[!-9;-~]+$", max_length=100)]


class _Node(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SenderEmail(_Node):
    """The sender has this address, or any address of the domain after `*@`."""

    type: Literal["sender_email"] = "sender_email"
    value: Address


class SenderDomain(_Node):
    """The sender's address ends with this domain, and no other before it."""

    type: Literal["sender_domain"] = "sender_domain"
    value: Domain


class SubjectContains(_Node):
    """The subject has this text somewhere."""

    type: Literal["subject_contains"] = "subject_contains"
    value: Text


class SubjectRegex(_Node):
    """The pattern matches somewhere in the subject."""

    type: Literal["subject_regex"] = "subject_regex"
    value: Pattern


class HeaderMatch(_Node):
    """The pattern matches somewhere in a header of this name."""

    type: Literal["header_match"] = "header_match"
    header: HeaderName
    pattern: Pattern


class LabelPresent(_Node):
    """The message carries this Gmail label."""

    type: Literal["label_present"] = "label_present"
    label: Text


class Group(_Node):
    """All (`and`), any (`or`), or none (`not`, of exactly one) of the children hold."""

    op: Literal["and", "or", "not"]
    children: tuple[Condition, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _not_takes_one(self) -> Self:
        if self.op == "not" and len(self.children) != 1:
            raise ValueError("`not` takes exactly one child")
        return self


Leaf = SenderEmail | SenderDomain | SubjectContains | SubjectRegex | HeaderMatch | LabelPresent
_GROUP = "group"
_LEAVES = {leaf.model_fields["type"].default: leaf for leaf in Leaf.__args__}


def _tag(node: Any) -> str | None:
    if isinstance(node, Group) or (isinstance(node, dict) and "op" in node):
        return _GROUP
    kind = node.get("type") if isinstance(node, dict) else getattr(node, "type", None)
    return kind if kind in _LEAVES else None


Condition = Annotated[
    Annotated[Group, Tag(_GROUP)]
    | Annotated[SenderEmail, Tag("sender_email")]
    | Annotated[SenderDomain, Tag("sender_domain")]
    | Annotated[SubjectContains, Tag("subject_contains")]
    | Annotated[SubjectRegex, Tag("subject_regex")]
    | Annotated[HeaderMatch, Tag("header_match")]
    | Annotated[LabelPresent, Tag("label_present")],
    Discriminator(
        _tag,
        custom_error_type="condition_unknown",
        custom_error_message=f"is neither a group with `op` nor of a type of {', '.join(_LEAVES)}",
    ),
]
Group.model_rebuild()
_ADAPTER: TypeAdapter[Group | Leaf] = TypeAdapter(Condition)


def parse_conditions(tree: Any) -> Group | Leaf:
    """Return the tree, checked.

    Raises:
        ConditionsInvalid: it cannot be used; `errors` says where and why.
    """
    if depth_of(tree) > MAX_DEPTH:
        raise ConditionsInvalid([_fault("", f"is nested deeper than {MAX_DEPTH} groups")])
    try:
        parsed = _ADAPTER.validate_python(tree)
    except ValidationError as error:
        raise ConditionsInvalid(
            [_fault(_path(one["loc"]), one["msg"]) for one in error.errors(include_url=False)]
        ) from None
    if len(list(leaves(parsed))) > MAX_LEAVES:
        raise ConditionsInvalid([_fault("", f"has more than {MAX_LEAVES} conditions")])
    return parsed


def leaves(node: Group | Leaf) -> Iterator[Leaf]:
    """Yield the leaves of a tree, in its order."""
    if isinstance(node, Group):
        for child in node.children:
            yield from leaves(child)
    else:
        yield node


def with_labels(
    node: Group | Leaf, rename: Callable[[str, str], str], field: str = "conditions"
) -> Group | Leaf:
    """Return a tree with other labels; `rename` is given each label and the name of its field."""
    if isinstance(node, Group):
        children = tuple(
            with_labels(child, rename, f"{field}.children.{index}")
            for index, child in enumerate(node.children)
        )
        return node.model_copy(update={"children": children})
    if isinstance(node, LabelPresent):
        return node.model_copy(update={"label": rename(node.label, f"{field}.label")})
    return node


def looks_into_mail(node: Group | Leaf) -> bool:
    """Say whether a condition reads more of the mail than people without access to it may see."""
    return any(_looks_into_mail(leaf) for leaf in leaves(node))


def _looks_into_mail(leaf: Leaf) -> bool:
    if isinstance(leaf, HeaderMatch):
        return leaf.header.lower() not in PUBLIC_HEADERS
    return not isinstance(leaf, SenderEmail | SenderDomain)


def depth_of(tree: Any) -> int:
    """Return how deep groups are nested in raw data; at most one more than allowed is counted."""
    level, depth = [tree], 0
    while level and depth <= MAX_DEPTH:
        level = [
            child
            for node in level
            if isinstance(node, dict) and isinstance(node.get("children"), list)
            for child in node["children"]
        ]
        depth += bool(level)
    return depth


def _fault(field: str, message: str) -> dict[str, str]:
    message = message.removeprefix("Value error, ")
    return {"field": field or "conditions", "code": "invalid", "message": message}


def _path(location: tuple[int | str, ...]) -> str:
    """Return a place in the tree: "conditions.children.0.value", without pydantic's tags."""
    named = [str(part) for part in location if part != _GROUP and part not in _LEAVES]
    return ".".join(["conditions", *named])
