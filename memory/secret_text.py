"""Secrets in plain text, by their shape or by the name before them.

Each rule is one pass over the result of the one before, in time that grows with the length of the text alone:
every loop in a pattern is possessive or ends at what cannot begin it anew, and what is looked for from many
places (a closing quote, the end of a value) is found once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .javascript import JAVASCRIPT_SPACES
from .secret_names import is_sensitive_name

__all__ = ["MASK", "is_suspicious", "mask_text"]

MASK = "[redacted]"
"""What stands where a secret was."""

_SPACE = f"[{JAVASCRIPT_SPACES}]"
_ANY_CASE = re.IGNORECASE | re.ASCII

_KEY_BEGIN = re.compile("-----BEGIN [A-Z ]*PRIVATE KEY-----")
_KEY_END = re.compile("-----END [A-Z ]*PRIVATE KEY-----")
_KEY_BODY = re.compile(
    r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=_]{16,}+)++(?:(?:\s|\\[nr])*+[A-Za-z0-9+/]*+={1,2}+)?"
)

_HEADER = re.compile(
    rf"(?<![A-Za-z0-9_])(authorization{_SPACE}*:{_SPACE}*)(?:bearer{_SPACE}+)?[^\n\r,;}}]+", _ANY_CASE
)
_HEADER_WITHOUT_COLON = re.compile(
    rf"(?<![A-Za-z0-9_])(authorization{_SPACE}++(?:bearer|basic|digest|token){_SPACE}++)(?!\[redacted)"
    r"[^\s,;}\"']++",
    _ANY_CASE,
)
_BEARER = re.compile(rf"(?<![A-Za-z0-9_])bearer{_SPACE}++[A-Za-z0-9._~+/=-]{{8,}}+", _ANY_CASE)

# Behind a quote that may be escaped a few times over, as in JSON inside a JSON string.
_QUOTE = r"\\{0,7}[\"']"
_ASSIGNED = re.compile(
    rf"(?P<quote>{_QUOTE})?(?<![A-Za-z0-9_.\-])[0-9.\-]*+(?P<name>[A-Za-z_][A-Za-z0-9_.\-]*+)"
    rf"(?(quote)(?P=quote)){_SPACE}*+[:=]{_SPACE}*+"
)
_OPENING = re.compile(_QUOTE)
_CLOSING = {quote: re.compile(rf"(?:[^{quote}\\]|\\.)*+{quote}", re.DOTALL) for quote in "\"'"}
_VALUE = re.compile(rf"(?!{_SPACE}|\[redacted)[^\"',;}}\]]")
_VALUE_END = re.compile(r"[,;}\]\n\r]")
_LINE_END = re.compile(r"[\n\r]")

# Each to the end of what could go on with it: half of it would say too much, and hide the next.
_LITERALS = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"sk-[A-Za-z0-9_-]{16,}+"
    r"|gh[pousr]_[A-Za-z0-9_]{20,}+"
    r"|github_pat_[A-Za-z0-9_]{20,}+"
    r"|A[KS]IA[0-9A-Z]{16}[A-Za-z0-9_-]*+"
    r"|xox[baprs]-[A-Za-z0-9-]{10}[A-Za-z0-9_-]*+"
    r"|AIza[A-Za-z0-9_-]{35,}+"
    r")"
)
# JSON Web Tokens, signed (three parts) or encrypted (five): their header begins with `{"`.
_WEB_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?>([A-Za-z0-9_-]*?)eyJ)[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+){2,4}+"
)
_URL = re.compile(r"(?P<web>https?)?://(?P<rest>(?:[^\s/\"'<>]++|/(?!/))++)", _ANY_CASE)
_PORT = re.compile(r"[0-9]{1,5}(?:[/?#]|\Z)")
_LONG_USER = 16
"""Characters from which on a user without a password, in a web address, is taken for a token."""


_HINTS = (
    *("key", "token", "secret", "passw", "pwd", "authorization", "cookie", "session", "credential", "bearer"),
    *(
        "://",
        "sk-",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "akia",
        "asia",
        "xox",
        "aiza",
        "eyj",
    ),
)


def is_suspicious(text: str) -> bool:
    """Whether a secret could be in `text`, also escaped as in JSON; quick, and False for most texts.

    What it clears holds nothing that `mask_text`, without patterns of the caller's, would find.
    """
    if "\\u" in text or "\\/" in text:
        return True
    lower = text.lower()
    return any(hint in lower for hint in _HINTS)


class _Span(NamedTuple):
    """What to replace, from `start` to before `end`."""

    start: int
    end: int
    mask: str = MASK


def mask_text(text: str, patterns: Sequence[re.Pattern[str]] = ()) -> str:
    """`text` with every secret in it replaced by `[redacted]`; the same object where there is none.

    Args:
        text: any text; taken as plain text, whatever it looks like.
        patterns: what counts as a secret besides; applied last. Takes as long as they take.
    """
    text = _masked(text, _private_keys(text))
    text = _HEADER.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(f"Bearer {MASK}", text)
    text = _masked(text, _quoted_values(text))
    text = _masked(text, _bare_values(text))
    text = _HEADER_WITHOUT_COLON.sub(rf"\1{MASK}", text)
    text = _masked(text, _url_secrets(text))
    text = _LITERALS.sub(MASK, text)
    text = _WEB_TOKEN.sub(rf"\1{MASK}", text)
    text = _masked(text, _broken_keys(text))  # late: it could cut off the beginning of another secret
    for pattern in patterns:
        text = _masked(text, _matches(text, pattern))
    return text


def _masked(text: str, spans: Iterable[_Span]) -> str:
    """`text` with the spans replaced; those that overlap, by one mask."""
    pieces: list[str] = []
    done = 0
    for start, end, mask in sorted(spans):
        if start < done:
            if end > done:
                done = end
            continue
        pieces += (text[done:start], mask)
        done = end
    return text if not pieces else "".join([*pieces, text[done:]])


def _private_keys(text: str) -> Iterable[_Span]:
    """PEM blocks, from their first line to their last."""
    done = 0
    while (begin := _KEY_BEGIN.search(text, done)) and (end := _KEY_END.search(text, begin.end())):
        done = end.end()
        yield _Span(begin.start(), done)


def _broken_keys(text: str) -> Iterable[_Span]:
    """What there is of PEM blocks that were cut off."""
    for begin in _KEY_BEGIN.finditer(text):
        body = _KEY_BODY.match(text, begin.end())
        if body is not None:
            yield _Span(begin.start(), body.end())


def _quoted_values(text: str) -> Iterable[_Span]:
    """The contents of quotes behind a sensitive name: up to where anybody could see them end."""
    for assigned in _ASSIGNED.finditer(text):
        opening = _OPENING.match(text, assigned.end())
        if opening is not None and is_sensitive_name(assigned["name"]):
            yield _Span(opening.end(), _closed(text, opening))


def _closed(text: str, opening: re.Match[str]) -> int:
    """Where the quoted text ends that begins behind `opening`; the end of the line if it is not closed."""
    quote, start = opening[0], opening.end()
    closing = _CLOSING[quote].match(text, start) if len(quote) == 1 else None
    end = text.find(quote, start) if closing is None else closing.end() - 1
    if end >= 0:
        return end
    line_end = _LINE_END.search(text, start)
    return len(text) if line_end is None else line_end.start()


def _bare_values(text: str) -> Iterable[_Span]:
    """What stands without quotes behind a sensitive name, to the next delimiter or the end of the line."""
    end = 0
    for assigned in _ASSIGNED.finditer(text):
        start, quote = assigned.end(), assigned["quote"] or ""
        if not _VALUE.match(text, start) or not is_sensitive_name(assigned["name"]):
            continue
        if len(quote) > 1 and text.startswith(quote, start):
            continue  # a quoted value after all, whose quotes are escaped as those of the name are
        if end <= start:
            found = _VALUE_END.search(text, start)
            end = len(text) if found is None else found.start()
            if text.startswith(MASK, end + 1 - len(MASK)):
                end += 1  # not a delimiter, but the end of a mask
        # A quoted name is that of a JSON member, which a bare mask would break.
        yield _Span(start, end, f"{quote}{MASK}{quote}")


def _url_secrets(text: str) -> Iterable[_Span]:
    """The password in `scheme://user:password@host`, and a token in the place of the user."""
    for url in _URL.finditer(text):
        rest, start = url["rest"], url.start("rest")
        at = rest.rfind("@")
        user = re.split("[:/?#@]", rest, maxsplit=1)[0]
        if at < 0:
            continue
        behind = rest[len(user) : len(user) + 1]
        if behind == ":" and at > len(user) + 1 and not _PORT.match(rest, len(user) + 1):
            yield _Span(start + len(user) + 1, start + at)
        elif behind == "@" and url["web"] and len(user) >= _LONG_USER:
            yield _Span(start, start + len(user))


def _matches(text: str, pattern: re.Pattern[str]) -> Iterable[_Span]:
    """What a caller's pattern finds; what it finds inside a mask stays, and no mask is cut into."""
    masks = [(found.start(), found.end()) for found in re.finditer(re.escape(MASK), text)]
    starts = [start for start, _ in masks]
    for match in pattern.finditer(text):
        start, end = match.span()
        if start == end:
            continue
        first, last = (
            masks[at - 1] if (at := bisect_right(starts, place)) else (0, 0) for place in (start, end - 1)
        )
        if first == last and end <= first[1]:
            continue
        yield _Span(first[0] if start < first[1] else start, max(end, last[1]))
