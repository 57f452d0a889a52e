"""Arithmetic over axis names: `expr` axes, constraints, byte and operation counts.

The grammar is SOL-ExecBench's (`+ - * / // % **`, parentheses, unary signs) plus comparisons, `and`, `or`, `not`, `min`, `max`
and `ceil_div`. Expressions are parsed, never executed as Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Final

_BINARY: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[float, float], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: Final[dict[str, Callable[..., float]]] = {
    "min": min,
    "max": max,
    "ceil_div": lambda a, b: -(-a // b),
}
_MAX_EXPONENT = 64


def evaluate(expression: str, names: Mapping[str, float]) -> float:
    """Evaluate `expression` with `names` bound to numbers.

    Raises:
        ValueError: for a syntax error, an unknown name, or anything outside the grammar; the message quotes the expression.
    """
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body, names)
    except (SyntaxError, ZeroDivisionError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"cannot evaluate {expression!r}: {error}") from error
    except _OutsideGrammarError as error:
        raise ValueError(f"cannot evaluate {expression!r}: {error}") from None


def names_in(expression: str) -> frozenset[str]:
    """Axis names that `expression` mentions.

    Raises:
        ValueError: when it is not an expression.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is not an expression: {error.msg}") from error
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)) - _CALLS.keys()


class _OutsideGrammarError(Exception):
    pass


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=bool() | int() | float() as number):
            return number
        case ast.Name(id=name):
            if name not in names:
                raise _OutsideGrammarError(
                    f"unknown name {name!r} (known: {', '.join(names) or 'none'})"
                )
            return names[name]
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            exponent = _value(right, names)
            if abs(exponent) > _MAX_EXPONENT:
                raise _OutsideGrammarError(f"exponent {exponent} is beyond {_MAX_EXPONENT}")
            return (
                float(_value(left, names) ** exponent)
                if exponent < 0
                else _value(left, names) ** exponent
            )
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, names)
        case ast.BoolOp(op=op, values=values):
            results = (bool(_value(v, names)) for v in values)
            return all(results) if isinstance(op, ast.And) else any(results)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _chain(left, ops, comparators, names)
        case ast.Call(func=ast.Name(id=call), args=args, keywords=[]) if call in _CALLS:
            return _CALLS[call](*(_value(a, names) for a in args))
    raise _OutsideGrammarError(f"{ast.unparse(node)!r} is not allowed here")


def _chain(
    left: ast.expr, ops: list[ast.cmpop], comparators: list[ast.expr], names: Mapping[str, float]
) -> bool:
    previous = _value(left, names)
    for op, comparator in zip(ops, comparators, strict=True):
        if type(op) not in _COMPARE:
            raise _OutsideGrammarError(f"comparison {type(op).__name__} is not allowed here")
        current = _value(comparator, names)
        if not _COMPARE[type(op)](previous, current):
            return False
        previous = current
    return True
