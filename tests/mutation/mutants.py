"""Small faults: every way to change one operator, constant, argument or statement of a file."""

from __future__ import annotations

import ast
import difflib
import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

PAIRS = "Lt LtE, Gt GtE, Eq NotEq, In NotIn, Is IsNot, Add Sub, Mult Div, LShift RShift, BitAnd BitOr, And Or"
PAIRS += ", min max, amin amax, minimum maximum, all any, argmin argmax, floor ceil"
TWINS = {"FloorDiv": "Mult", "Mod": "Mult", "Pow": "Mult"}
for one, other in map(str.split, PAIRS.split(", ")):
    TWINS |= {one: other, other: one}


@dataclass(frozen=True)
class Mutant:
    """One replaced stretch of a file."""

    path: str
    line: int
    source: str
    old: str

    @property
    def diff(self) -> str:
        """The changed lines alone, stripped: short, and the same wherever the lines move to."""
        lines = difflib.unified_diff(self.old.splitlines(), self.source.splitlines(), n=0, lineterm="")
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in list(lines)[2:] if not line.startswith("@@"))


def mutants(source: str, path: str = "") -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its nodes."""
    raw, tree = source.encode(), ast.parse(source)
    starts = [0, *itertools.accumulate(len(line) for line in raw.splitlines(keepends=True))]
    for node, text in _sites(tree):
        start, stop = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        # Swapped arguments may be equal, and what is returned may be None already.
        if text not in (_text(node), ast.unparse(node)):
            changed = (raw[:start] + text.encode() + raw[stop:]).decode()
            with suppress(SyntaxError):
                ast.parse(changed)
                yield Mutant(path, node.lineno, changed, source)


def _sites(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Nodes, each with a text to put in its place."""
    yield from _replacements(node)
    for name, child in ast.iter_fields(node):
        # Annotations and decorators hold no behaviour of ours; the pieces of an f-string have no position before 3.12.
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise | ast.JoinedStr):
            continue
        for each in child if isinstance(child, list) else [child]:
            if isinstance(each, ast.AST):
                yield from _sites(each)


def _replacements(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                yield node, _text(ast.Compare(left, [*ops[:place], _twin(op), *ops[place + 1 :]], comparators))
        case ast.BinOp(left, op, right) if type(op).__name__ in TWINS:
            yield node, _text(ast.BinOp(left, _twin(op), right))
        case ast.AugAssign(target, op, value) if type(op).__name__ in TWINS:
            yield node, ast.unparse(ast.AugAssign(target, _twin(op), value))
        case ast.BoolOp(op, values):
            yield node, _text(ast.BoolOp(_twin(op), values))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield node, _text(operand)
        case ast.Constant(bool(value)):
            yield node, str(not value)
        case ast.Constant(int(value) | float(value)):
            yield node, repr(value + 1)
        case ast.Call(func, arguments, keywords):
            for place in range(len(keywords)):
                yield node, _text(ast.Call(func, arguments, keywords[:place] + keywords[place + 1 :]))
            if len(arguments) > 1 and not any(isinstance(each, ast.Starred) for each in arguments):
                yield node, _text(ast.Call(func, [arguments[1], arguments[0], *arguments[2:]], keywords))
            match func:
                case ast.Name(name) if name in TWINS:
                    yield func, TWINS[name]
                case ast.Attribute(value, name) if name in TWINS:
                    yield func, ast.unparse(ast.Attribute(value, TWINS[name]))
        case ast.Expr(ast.Call()) | ast.Raise() | ast.Continue() | ast.Break():
            yield node, "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.Return(ast.expr()):
            yield node, "return None"
    test = getattr(node, "test", None)
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(test, ast.Compare | ast.UnaryOp):
        yield test, f"(not {_text(test)})"


def _twin(op: ast.AST) -> ast.AST:
    return getattr(ast, TWINS[type(op).__name__])()


def _text(node: ast.AST) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"
