"""What the first file of CSV shows of how it was written: what may be two things is asked for, never guessed."""

from __future__ import annotations

import pytest

from tidecast._csv_format import CsvFormat, csv_format
from tidecast._errors import ConfigError
from tidecast.topics._sink_lines import Shown, seen

pytestmark = pytest.mark.unit

_TIMED = CsvFormat(include_commit_ts=True)
_BOTH = CsvFormat(include_commit_ts=True, output_old_value=True)
_STAMP = b"450000000000000000"


@pytest.mark.parametrize(
    ("sample", "form"),
    [
        (b'"I","t","shop",false,"a"\r\n', CsvFormat(output_old_value=True)),  # a column was left out
        (b'"I","t","shop",%b,false,"a"\r\n' % _STAMP, _BOTH),
        (b'"I","t","shop",%b,false,"a",1\r\n' % _STAMP, _BOTH),
        (b'"I","t","shop",%b,"false",1\r\n' % _STAMP, _TIMED),  # a text that looks like it
        (b'"I","t","shop","false",1\r\n', CsvFormat()),
        (b'"I","t","shop",1790000000000000000,"a"\r\n', CsvFormat()),  # an id that is later than any commit-ts
        (b'"I","t","sh\r\n"I","t","shop",%b,"a",1\r\n' % _STAMP, _TIMED),  # the first line is damaged
        (
            b"ticdc-meta$operation;ticdc-meta$table;ticdc-meta$schema;ticdc-meta$commit-ts;a;b\n"
            b"$I$;$t$;$shop$;%b;$a$;1\n" % _STAMP,
            CsvFormat(";", "$", include_commit_ts=True, output_field_header=True, terminator="\n"),
        ),
        (
            b'ticdc-meta$operation$ticdc-meta$table$ticdc-meta$schema$ticdc-meta$commit-ts$a"\n'
            b'"I"$"t"$"shop"$%b$"a"\n' % _STAMP,
            CsvFormat("$", include_commit_ts=True, output_field_header=True, terminator="\n"),
        ),
        (
            b'ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,a"b,c\r\n"I","t","shop","a\r\n",1\r\n',
            CsvFormat(output_field_header=True),
        ),
    ],
)
def test_what_rows_begin_with_is_seen(sample: bytes, form: CsvFormat) -> None:
    if form.quote == "$":
        form, told = form, {"csv-quote": "$"}
    else:
        told = {}
    assert seen(csv_format(told), told, sample, Shown([("shop", "t")], 2)) == form


@pytest.mark.parametrize(
    ("sample", "asked"),
    [
        (b'"I","t","shop",%b,1\r\n' % _STAMP, "csv-include-commit-ts"),
        (b"I,t,shop,false,a\r\n", "csv-output-old-value"),
        (b"I,t,shop,%b,false,a\r\n" % _STAMP, "csv-include-commit-ts"),
    ],
)
def test_what_may_be_a_columns_value_is_asked_for(sample: bytes, asked: str) -> None:
    with pytest.raises(ConfigError, match=f"{asked}=true or =false") as caught:
        seen(CsvFormat(), {}, sample, Shown([("shop", "t")], 2))
    assert caught.value.hint
    for truth in (True, False):
        told = {asked: str(truth).lower()}
        if sample[:1] == b"I" and asked == "csv-include-commit-ts" and truth:
            told |= {"csv-output-old-value": "true"}
        found = seen(csv_format(told), told, sample, Shown([("shop", "t")], 2))
        assert (found.include_commit_ts if "commit" in asked else found.output_old_value) is truth


def test_a_handle_key_is_no_column() -> None:
    told = {"csv-output-handle-key": "true"}
    form, shown = csv_format(told), Shown([("shop", "t")], 2)
    assert seen(form, told, b"I,t,shop,%b,7,a,1\r\n" % _STAMP, shown).include_commit_ts
    with pytest.raises(ConfigError, match="csv-include-commit-ts=true or =false"):
        seen(form, told, b"I,t,shop,%b,a,1\r\n" % _STAMP, shown)


@pytest.mark.parametrize(
    ("table", "sample"),
    [
        ('a"b', b'"I","a""b","shop",%b,"a",1\r\n' % _STAMP),
        ("a,b\\", b"I,a\\,b\\\\,shop,%b,a,1\r\n" % _STAMP),
    ],
)
def test_names_with_marks_are_found(table: str, sample: bytes) -> None:
    assert seen(CsvFormat(), {}, sample, Shown([("shop", table)], 2)).include_commit_ts


def test_a_row_has_one_of_several_names() -> None:
    shown = Shown([("shop", "b"), ("shop", "x")], 2)
    for name in (b"b", b"x"):
        assert seen(CsvFormat(), {}, b'"I","%b","shop",%b,"a",1\r\n' % (name, _STAMP), shown).include_commit_ts
