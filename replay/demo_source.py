"""A Python file as the demo's agents read it: its text, its syntax tree and its tokens."""

from __future__ import annotations

import ast
import importlib.util
import io
import threading
import tokenize
from collections.abc import Iterator
from functools import cached_property

from .demo_files import Unreadable

__all__ = ["Source"]

# CPython up to 3.11 counts the depth of a tree in one place for all threads, and fails when two of them parse
# at once (python/cpython issue 106905).
_PARSING = threading.Lock()

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Branch = (
    ast.If
    | ast.For
    | ast.AsyncFor
    | ast.While
    | ast.ExceptHandler
    | ast.IfExp
    | ast.BoolOp
    | ast.Assert
    | ast.comprehension
    | ast.match_case
)
_LAYOUT = frozenset(
    (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    )
)


class Source:
    """The text of a Python file and what it means; lines count from 1.

    Every question is answered from an index made once, so that a file full of findings is no slower to check.

    Raises:
        Unreadable: it is no Python that this interpreter can parse; so do the properties that need tokens.
    """

    def __init__(self, data: bytes) -> None:
        # Hostile text can exhaust the parser in several ways, or name an encoding that is none for text.
        try:
            self._text = importlib.util.decode_source(data)
            with _PARSING:
                tree = ast.parse(self._text)
            self._nodes = list(ast.walk(tree))
        except SyntaxError as error:
            raise Unreadable(f"cannot be parsed: {error.msg}", error.lineno or 1) from error
        except (ValueError, LookupError, RecursionError, MemoryError) as error:
            raise Unreadable(f"cannot be parsed: {str(error) or 'it exhausts the parser'}") from error
        self.lines = self._text.removesuffix("\n").split("\n") if self._text else []

    @property
    def classes(self) -> int:
        """How many classes are defined."""
        return sum(isinstance(node, ast.ClassDef) for node in self._nodes)

    def measures(self) -> Iterator[tuple[str, int, int, int]]:
        """Name, line, number of lines and number of branches of each function, local ones included."""
        for node in self._functions:
            branches = sum(isinstance(inner, _Branch) for inner in ast.walk(node))
            yield node.name, node.lineno, len(_span(node)), branches

    @cached_property
    def bare_excepts(self) -> set[int]:
        """The lines of handlers that name nothing to catch."""
        return {node.lineno for node in self._nodes if isinstance(node, ast.ExceptHandler) and not node.type}

    @cached_property
    def mutable_defaults(self) -> set[int]:
        """The lines of functions that have a list, dict or set for a default."""
        return {
            node.lineno
            for node in self._functions
            if any(_is_mutable(default) for default in (*node.args.defaults, *node.args.kw_defaults))
        }

    @cached_property
    def none_comparisons(self) -> set[int]:
        """The lines of comparisons of something with None by `==` or `!=`."""
        return {
            line
            for node in self._nodes
            if isinstance(node, ast.Compare)
            and any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
            and any(isinstance(side, ast.Constant) and side.value is None for side in _sides(node))
            for line in _span(node)
        }

    @cached_property
    def definitions(self) -> dict[int, bool]:
        """The lines of functions and classes, and whether each has a docstring."""
        return {
            node.lineno: _docstring(node) is not None for node in self._nodes if isinstance(node, _Definition)
        }

    @cached_property
    def local_definitions(self) -> set[int]:
        """The lines of functions and classes defined inside a function."""
        inner = (node for outer in self._functions for node in ast.walk(outer) if node is not outer)
        return {node.lineno for node in inner if isinstance(node, _Definition)}

    @cached_property
    def text_lines(self) -> set[int]:
        """The lines that begin inside a string."""
        lines: set[int] = set()
        for node in self._nodes:
            if isinstance(node, ast.JoinedStr) or (
                isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
            ):
                lines.update(_span(node)[1:])
        return lines

    @cached_property
    def comments(self) -> dict[int, str]:
        """The comments, by line."""
        return {token.start[0]: token.string for token in self._tokens if token.type == tokenize.COMMENT}

    def code_lines(self, line: int) -> int:
        """How many lines of the function that begins at `line` hold code: not blank, comment or docstring."""
        spans = [_span(node) for node in self._functions if node.lineno == line]
        return max((len(self._code.intersection(span)) for span in spans), default=0)

    @cached_property
    def _functions(self) -> list[_Function]:
        return [node for node in self._nodes if isinstance(node, _Function)]

    @cached_property
    def _tokens(self) -> list[tokenize.TokenInfo]:
        try:
            return list(tokenize.generate_tokens(io.StringIO(self._text).readline))
        except (tokenize.TokenError, SyntaxError) as error:
            raise Unreadable(f"cannot be tokenised: {error}") from error

    @cached_property
    def _code(self) -> set[int]:
        lines: set[int] = set()
        for token in self._tokens:
            if token.type not in _LAYOUT:
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in self._nodes:
            docstring = _docstring(node)
            if docstring is not None:
                lines.difference_update(_span(docstring))
        return lines


def _span(node: ast.stmt | ast.expr) -> range:
    """The lines a node covers."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _sides(comparison: ast.Compare) -> list[ast.expr]:
    return [comparison.left, *comparison.comparators]


def _docstring(node: ast.AST) -> ast.stmt | None:
    """The statement that is the docstring of a module, class or function."""
    if isinstance(node, ast.Module | _Definition) and node.body:
        first = node.body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and type(first.value.value) is str
        ):
            return first
    return None


def _is_mutable(default: ast.expr | None) -> bool:
    if isinstance(default, ast.Call):
        return isinstance(default.func, ast.Name) and default.func.id in ("list", "dict", "set")
    return isinstance(default, ast.List | ast.Dict | ast.Set)
