"""Tables in a terminal and in a pipe."""

import io

from streaming.runtime.terminal import table, width_of

ROWS = [("orders-0", 3), ("a-topic-with-a-name", 12)]


def test_columns_are_aligned():
    assert table(("partition", "led by"), ROWS, right={1}) == (
        "partition            led by\norders-0                  3\na-topic-with-a-name      12\n"
    )


def test_borders_surround_cells():
    assert table(("a", "b"), [(1, 2)], borders=True) == (
        "+---+---+\n| a | b |\n+---+---+\n| 1 | 2 |\n+---+---+\n"
    )


def test_a_table_without_rows_is_its_header():
    assert table(("a", "b"), []) == "a  b\n"


def test_no_cell_is_cut_however_long_it_is():
    long = "x" * 300
    assert long in table(("a", "b"), [(long, 1)])
    assert long in table(("a", "b"), [(long, 1)], borders=True)


def test_cells_are_folded_and_not_cut_in_a_narrow_terminal():
    text = table(("a", "b"), [("0123456789" * 5, "end")], borders=True, width=30)
    assert max(map(len, text.splitlines())) <= 30
    assert sum(text.count(digit) for digit in "0123456789") == 50
    assert "…" not in text


def test_brackets_are_text_and_not_markup():
    assert "[bold]x[/bold]" in table(("a",), [("[bold]x[/bold]",)])


def test_output_has_no_escape_sequences():
    assert "\x1b" not in table(("a", "b"), ROWS, borders=True)


def test_a_file_has_no_width():
    assert width_of(io.StringIO()) is None
