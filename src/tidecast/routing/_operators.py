"""The operators of MySQL's that value expressions may have. Every other one is refused.

Source: Changefeed configuration, value expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import fmod, isfinite
from operator import add, and_, invert, lshift, mul, ne, not_, or_, rshift, sub, xor
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.parsers.mysql import MySQLParser

from tidecast._go import parse_regexp
from tidecast.routing._functions import FUNCTIONS, bits, conditional, fitting, from_bits, shifted, whole
from tidecast.routing._values import (
    EXACT,
    NULL,
    UINT64,
    Read,
    Sort,
    Value,
    all_of,
    as_exact,
    as_real,
    as_text,
    as_truth,
    between,
    check_collation,
    compare,
    constant,
    exact,
    integer,
    is_null,
    number_literal,
    out_of_range,
    real,
    refuse,
    strict,
    text_literal,
    truth,
)

_DEEPEST, _TWO = 30, 2
_SHIFTS = {"date_add": False, "adddate": False, "date_sub": True, "subdate": True}
"""Functions that take an INTERVAL, and whether they go back."""

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "<=>",
}
_DIVISION_DIGITS = 9
"""Digits after the point that TiDB computes of a quotient, and what it cuts off it does not round."""

_REGEXP = re.compile(
    r"(?:[A-Za-z0-9_ @:,/=<>%#&;~'\"!-]|\\[.*+?()|\[\]{}^$/\\-]|\[\^?(?:[A-Za-z0-9_](?:-[A-Za-z0-9])?)+\]|"
    r"[.^$|()]|(?<=[^*+?|(^])[*+?](?![*+?]))*"
)
"""Regular expressions that TiDB's engine, which is RE2 as here, and MySQL's take for the same."""


class _Parser(MySQLParser):
    """Gives every function the name and the arguments that it has in the text."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}


class Dialect(MySQL):
    """MySQL's SQL with functions as they are written: sqlglot's own forms of them lose what other dialects lack."""

    Parser = _Parser


class Translator:
    """Makes values of a tree of sqlglot's; `column` gives that of a column by its node. Raises Unsupported."""

    def __init__(self, column: Callable[[exp.Column], Value]) -> None:
        self._column = column
        self._depth = 0

    def value(self, node: exp.Expression) -> Value:
        """Return the value of a node."""
        if any(comment.startswith(("!", "T!", "+", "M!")) for comment in node.comments or ()):
            refuse("it has a comment that MySQL runs")
        if self._depth > _DEEPEST:
            refuse("it is nested too deep")
        self._depth += 1
        found = self._value(node)
        self._depth -= 1
        return found

    def _value(self, node: exp.Expression) -> Value:
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Paren():
                return self.value(node.this)
            case exp.Null():
                return NULL
            case exp.Boolean():
                return integer(constant(int(node.this)), *[int(node.this)] * 2)
            case exp.Literal():
                return text_literal(node.name) if node.is_string else number_literal(node.name)
            case exp.HexString() | exp.BitString():
                return _binary_literal(node)
            case exp.Neg(this=exp.Literal(is_string=False) as literal) if isinstance(literal, exp.Literal):
                return number_literal(f"-{literal.name}")
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Anonymous():
                return self._function(node)
            case exp.Between():
                return between(*(self.value(node.args[part]) for part in ("this", "low", "high")))
            case exp.In():
                return self._in(node)
            case exp.Is():
                return self._is(node)
            case exp.And() | exp.Or():  # many of them are no deep tree
                parts = [as_truth(self.value(cast("exp.Expression", part))) for part in node.flatten(unnest=False)]
                return truth(all_of(*parts) if isinstance(node, exp.And) else _any(*parts))
            case exp.Not():
                return truth(_not(as_truth(self.value(node.this))))
            case exp.Escape() | exp.Like():
                return self._like(node)
            case exp.RegexpLike() if set(_given(node)) == {"this", "expression"}:
                return _regexp(self.value(node.this), self.value(node.expression))
            case exp.Neg():
                return _arithmetic(exp.Sub, integer(constant(0), 0, 0), _signed(self.value(node.this)))
            case exp.Add(this=exp.Interval() as by, expression=of) | exp.Add(this=of, expression=exp.Interval() as by):
                return self._shifted(of, by)
            case exp.Sub(this=of, expression=exp.Interval() as by):
                return self._shifted(of, by, back=True)
            case exp.BitwiseNot():
                return from_bits(strict(invert, bits(self.value(node.this))))
            case _ if operator := _COMPARISONS.get(type(node)):
                if type(node.args["expression"]) in _COMPARISONS:
                    refuse("it compares a comparison: put one of them into parentheses")
                return self._compared(operator, node.this, node.args["expression"])
            case _ if build := _BINARY.get(type(node)):
                return build(self.value(node.this), self.value(node.args["expression"]))
            case _:
                return refuse(f"it has an operator or another part that is not supported: {_named(node)}")

    def _compared(self, operator: str, left: exp.Expression, right: exp.Expression) -> Value:
        return compare(operator, self.value(left), self.value(right))

    def _function(self, node: exp.Anonymous) -> Value:
        name = str(node.this).lower()
        if name == "mod" and len(node.expressions) == _TWO:
            return _arithmetic(exp.Mod, *map(self.value, node.expressions))
        if name in _SHIFTS and len(node.expressions) == _TWO and isinstance(by := node.expressions[1], exp.Interval):
            return self._shifted(node.expressions[0], by, back=_SHIFTS[name])
        function = FUNCTIONS.get(name)
        if function is None:
            refuse(f"the function {name} is not supported")
        if not function.least <= len(node.expressions) <= function.most:
            refuse(f"the function {name} has too few or too many arguments")
        return function.build(*map(self.value, node.expressions))

    def _shifted(self, node: exp.Expression, by: exp.Interval, *, back: bool = False) -> Value:
        steps = by.this
        if not isinstance(steps, exp.Literal) or not re.fullmatch("-?[0-9]{1,9}", steps.name):
            refuse("an INTERVAL has something else than a literal whole number")
        return shifted(self.value(node), -int(steps.name) if back else int(steps.name), str(by.unit).upper())

    def _case(self, node: exp.Expression) -> Value:
        if isinstance(node, exp.If):
            branches, default = [node], node.args.get("false")
            if default is None:
                refuse("the function if has too few or too many arguments")
        else:
            branches, default = node.args["ifs"], node.args.get("default")
        conditions = [
            (
                self._compared("=", node.this, one.this)
                if isinstance(node, exp.Case) and node.this
                else self.value(one.this)
            )
            for one in branches
        ]
        values = [self.value(one.args["true"]) for one in branches]
        values.append(self.value(default) if default else NULL)
        return conditional([as_truth(c) for c in conditions], values)

    def _in(self, node: exp.In) -> Value:
        if set(_given(node)) != {"this", "expressions"}:
            refuse("it looks for a value in something else than a list")
        one = self.value(node.this)
        return truth(_any(*(compare("=", one, self.value(other)).read for other in node.expressions)))

    def _is(self, node: exp.Is) -> Value:
        value = self.value(node.this)
        match node.args["expression"]:
            case exp.Null():
                return is_null(value)
            case exp.Boolean() as wanted:
                found, is_true = as_truth(value), bool(wanted.this)
                return truth(lambda row: found(row) is is_true)
            case _:
                return refuse("it has an operator or another part that is not supported: IS")

    def _like(self, node: exp.Expression) -> Value:
        escape = "\\"
        like = node
        if isinstance(node, exp.Escape):
            like, given = node.this, self.value(node.args["expression"])
            if not isinstance(like, exp.Like) or given.literal is None or len(given.literal) != 1:
                refuse("ESCAPE has something else than one literal character")
            escape = given.literal
        if set(_given(like)) - {"this", "expression", "negate"}:
            refuse("it has a LIKE of another kind")
        found = _like(self.value(like.this), self.value(like.args["expression"]), escape)
        return truth(_not(found.read)) if like.args.get("negate") else found


def _given(node: exp.Expression) -> list[str]:
    return [name for name, value in node.args.items() if value not in (None, [], False)]


def _named(node: exp.Expression) -> str:
    """Return what a person would call a node."""
    return {exp.JSONExtract: "->", exp.JSONExtractScalar: "->>", exp.Tuple: "a row"}.get(
        type(node), type(node).__name__.upper()
    )


def _binary_literal(node: exp.Expression) -> Value:
    """Return bytes, which are a number where one belongs."""
    is_hex = isinstance(node, exp.HexString)
    number = int(node.name or "0", 16 if is_hex else 2)
    digits = len(node.name) if is_hex else -(-len(node.name) // 4)
    found = number_literal(str(number)) if number <= UINT64[1] else None
    content = number.to_bytes((digits + 1) // 2) if node.name else b""
    return Value(constant(content), Sort.BYTES, number=found)


def _like(value: Value, pattern: Value, escape: str) -> Value:
    """Return whether a text is like a pattern. Unlike a comparison it counts blanks at the end."""
    if pattern.literal is None or pattern.sort is not Sort.TEXT:
        refuse("the pattern of LIKE is no literal text")
    if value.sort is Sort.BYTES:
        if not pattern.literal.isascii() or "_" in pattern.literal:
            refuse("bytes are like a pattern that counts their characters")
        read = strict(lambda content: content.decode("latin-1"), value.read)
    else:
        check_collation(value)
        read = as_text(value).read
    parts, characters = [], iter(pattern.literal)
    for one in characters:
        if one == escape:
            parts.append(re.escape(next(characters, one)))
        else:
            parts.append({"%": ".*", "_": "."}.get(one) or re.escape(one))
    return truth(_found_by("(?s)^" + "".join(parts) + "$", read))


def _regexp(value: Value, pattern: Value) -> Value:
    if not pattern.literal or pattern.sort is not Sort.TEXT or not _REGEXP.fullmatch(pattern.literal):
        refuse("its regular expression is no plain one: letters, digits, '.', '*', '+', '?', '|', '^', '$', (…), […]")
    check_collation(value)
    return truth(_found_by(pattern.literal, as_text(value).read))


def _found_by(pattern: str, read: Read) -> Read:
    try:
        search = parse_regexp(pattern).search
    except ValueError:
        refuse("its regular expression is none")
    return strict(lambda text: search(text) is not None, read)


def _operand(value: Value, *, exactly: bool = False) -> Value:
    """Return a value as arithmetic takes it; `exactly` says that it takes a BIT for a whole number, and for no double.

    TiDB does so with a sign and DIV.
    """
    if value.hybrid:
        return as_exact(value) if exactly else real(as_real(value))
    if value.year:  # MySQL's is unsigned
        return replace(value, year=False)
    if value.sort in (Sort.REAL, Sort.EXACT):
        return value
    return real(as_real(value)) if value.sort in (Sort.TEXT, Sort.CHOICE) else as_exact(value)


def _arithmetic(kind: type[exp.Expression], left: Value, right: Value) -> Value:
    if Sort.NULL in (left.sort, right.sort):
        return NULL
    one, other = (_operand(value, exactly=kind is exp.IntDiv) for value in (left, right))
    if Sort.REAL in (one.sort, other.sort):
        if kind not in _REAL:
            refuse("DIV is for whole numbers")
        return real(strict(_finite, strict(_REAL[kind], as_real(one), as_real(other))))
    return _EXACT[kind](one, other)


def _finite(number: float) -> float:
    return number if isfinite(number) else out_of_range("DOUBLE")


def _any(*parts: Read) -> Read:
    """Return MySQL's OR."""
    return _not(all_of(*map(_not, parts)))


def _not(part: Read) -> Read:
    return strict(not_, part)


def _sum(kind: type[exp.Expression]) -> Callable[[Value, Value], Value]:
    def build(one: Value, other: Value) -> Value:
        scale = max(one.scale, other.scale)
        low, high, least, most = (bound * 10 ** (scale - v.scale) for v in (one, other) for bound in (v.low, v.high))
        if kind is exp.Add:
            return _of_kind(exact(strict(EXACT.add, one.read, other.read), low + least, high + most, scale), one, other)
        read = strict(EXACT.subtract, one.read, other.read)
        return _of_kind(exact(read, low - most, high - least, scale), one, other)

    return build


def _product(one: Value, other: Value) -> Value:
    bounds = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
    read = strict(EXACT.multiply, one.read, other.read)
    return _of_kind(exact(read, min(bounds), max(bounds), one.scale + other.scale), one, other)


def _quotient(one: Value, other: Value) -> Value:
    """Return a quotient that is cut as TiDB cuts it, and null where it is divided by zero."""
    if max(one.scale, other.scale) > _DIVISION_DIGITS or (one.scale and other.scale):
        refuse("it divides numbers with many digits after the point")
    bound = max(abs(one.low), abs(one.high)) * 10 ** (_DIVISION_DIGITS - one.scale + other.scale)

    def cut(up: Decimal, by: Decimal) -> Decimal | None:
        found = _cut_quotient(Decimal(up).scaleb(_DIVISION_DIGITS, EXACT), Decimal(by))
        return None if found is None else found.scaleb(-_DIVISION_DIGITS, EXACT)

    return exact(strict(cut, one.read, other.read), -bound, bound, _DIVISION_DIGITS)


def _cut_quotient(up: Decimal, by: Decimal) -> Decimal | None:
    """Return the quotient of two numbers without its fraction."""
    return EXACT.divide_int(up, by) if by else None


def _whole_quotient(one: Value, other: Value) -> Value:
    if not (one.integer and other.integer):
        refuse("DIV is for whole numbers")
    bound = max(abs(one.low), abs(one.high))
    low = 0 if one.low >= 0 and other.low >= 0 else -bound
    result = exact(strict(_cut_quotient, one.read, other.read), low, bound, 0)
    return fitting(replace(result, integer=True, unsigned=one.unsigned or other.unsigned))


def _remainder(one: Value, other: Value) -> Value:
    scale = max(one.scale, other.scale)
    bound = max(abs(one.low), abs(one.high)) * 10 ** (scale - one.scale)
    low = 0 if one.low >= 0 else -bound
    result = exact(strict(lambda a, b: EXACT.remainder(a, b) if b else None, one.read, other.read), low, bound, scale)
    return replace(result, integer=one.integer and other.integer, unsigned=one.unsigned)


def _of_kind(result: Value, one: Value, other: Value) -> Value:
    """Return what MySQL makes of two numbers: a whole one of 64 bits, unsigned where either is, if both are whole."""
    whole_numbers = one.integer and other.integer
    return fitting(replace(result, integer=whole_numbers, unsigned=whole_numbers and (one.unsigned or other.unsigned)))


def _signed(value: Value) -> Value:
    """Return a number for which MySQL's minus gives a signed one."""
    return replace(_operand(value, exactly=True), unsigned=False) if value.sort is not Sort.NULL else value


_EXACT: dict[type[exp.Expression], Callable[[Value, Value], Value]] = {
    exp.Add: _sum(exp.Add),
    exp.Sub: _sum(exp.Sub),
    exp.Mul: _product,
    exp.Div: _quotient,
    exp.IntDiv: _whole_quotient,
    exp.Mod: _remainder,
}
_REAL: dict[type[exp.Expression], Callable[[float, float], float | None]] = {
    exp.Add: add,
    exp.Sub: sub,
    exp.Mul: mul,
    exp.Div: lambda one, other: one / other if other else None,
    exp.Mod: lambda one, other: fmod(one, other) if other else None,
}


def _bitwise(operator: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    def build(one: Value, other: Value) -> Value:
        return NULL if Sort.NULL in (one.sort, other.sort) else from_bits(strict(operator, bits(one), bits(other)))

    return build


def _shift(operator: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    def build(one: Value, by: Value) -> Value:
        if one.sort is Sort.NULL:
            return NULL
        steps = whole(by)
        return from_bits(strict(lambda n: operator(n, steps) if 0 <= steps < 64 else 0, bits(one)))

    return build


def _exclusive(one: Value, other: Value) -> Value:
    return truth(strict(ne, as_truth(one), as_truth(other)))


_BINARY: dict[type[exp.Expression], Callable[[Value, Value], Value]] = {
    exp.Xor: _exclusive,
    **{kind: partial(_arithmetic, kind) for kind in _EXACT},
    exp.BitwiseAnd: _bitwise(and_),
    exp.BitwiseOr: _bitwise(or_),
    exp.BitwiseXor: _bitwise(xor),
    exp.BitwiseLeftShift: _shift(lshift),
    exp.BitwiseRightShift: _shift(rshift),
}
