"""Tables as spreadsheets, pandas and instruments write them: read as they are meant, or refused
with the line and the value that stood in the way."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from data_place import DATA, Workplace, dense, place, refused

__all__ = ["place"]

ROWS = [[2.041, -2.556, 0], [0.418, -0.568, 1], [-0.453, -0.216, 0], [-2.02, -0.232, 1]]


def table(rows: list[list[float]] = ROWS, header: str = "a,b,label", separator: str = ",") -> str:
    lines = [separator.join(map(str, row)) for row in rows]
    return "\n".join([header.replace(",", separator), *lines]) + "\n"


def fit(place: Workplace, data: Path, *options: str, width: int = 2) -> tuple[bytes, str]:
    """Weights after an epoch, and what was said of the data."""
    output = place.folder / "out.keras"
    done = place.fit(
        place.model([width], dense(2, "softmax")), *options, data=data, output=output, batch=2,
        loss="sparse_categorical_crossentropy", optimizer="sgd",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return output.read_bytes(), done.stderr


def same_as_plain(place: Workplace, content: bytes | str, name: str = "t.csv") -> str:
    """Trains on the plain table and on another form of it: the same bits."""
    expected, _ = fit(place, place.write("plain.csv", table()))
    path = place.folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    weights, said = fit(place, path)
    assert weights == expected, said
    return said


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_encodings(place: Workplace, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    same_as_plain(place, (mark + table()).encode(encoding))


def test_separator_line(place: Workplace) -> None:
    same_as_plain(place, ("sep=;\n" + table(separator=";")).replace("\n", "\r\n"))


def test_comment_lines(place: Workplace) -> None:
    said = same_as_plain(place, "# exported by instrument\n# v2, of 3\n" + table())
    assert "2 comment lines" in said


def test_header_in_a_comment(place: Workplace) -> None:
    """np.savetxt(…, header="a,b,label")"""
    same_as_plain(place, "# a,b,label\n" + table().split("\n", 1)[1])


def test_decimal_commas(place: Workplace) -> None:
    said = same_as_plain(place, table(separator=";").replace(".", ","))
    assert 'column "a"' in said and '"2,041" in line 2' in said


def test_decimal_commas_after_tabs(place: Workplace) -> None:
    same_as_plain(place, table(separator="\t").replace(".", ","))


def test_thousands(place: Workplace) -> None:
    rows = [[1234567 + 1000 * i, i / 2, i % 2] for i in range(4)]
    expected, _ = fit(place, place.write("plain.csv", table(rows)))
    quoted = [[f'"{row[0]:,}"', *row[1:]] for row in rows]
    weights, said = fit(place, place.write("t.csv", table(quoted)))
    assert weights == expected
    assert '"1,234,567" in line 2' in said


def test_percent_signs(place: Workplace) -> None:
    rows = [[f"{row[0]}%", f"{row[1]} %", row[2]] for row in ROWS]
    same_as_plain(place, table(rows))


def test_mixed_styles_are_said(place: Workplace) -> None:
    text = table().replace("0.418", '"1,5"')
    error = refused(place, place.write("t.csv", text), width=2)
    assert 'column "a" holds categories' in error and '"1,5" in line 3' in error


def test_index_column_of_pandas(place: Workplace) -> None:
    indexed = [[i, *row] for i, row in enumerate(ROWS)]
    said = same_as_plain(place, table(indexed, ",a,b,label"))
    assert "index" in said
    expected, _ = fit(place, place.folder / "plain.csv")
    weights, _ = fit(place, place.folder / "t.csv", "--columns", "a,b")
    assert weights == expected


def test_first_column_without_a_name_that_counts_nothing(place: Workplace) -> None:
    odd = [[i * i, *row] for i, row in enumerate(ROWS)]
    fit(place, place.write("t.csv", table(odd, ",a,b,label")), width=3)


def test_header_alone(place: Workplace) -> None:
    path = place.write("t.csv", "a,b,label\n")
    assert "received a header and none" in refused(place, path, width=2)


@pytest.mark.parametrize("word", ["-", "--", ".", "#N/A", "n/a", "na", "<NA>", "nil", "none"])
def test_words_for_missing_among_numbers(place: Workplace, word: str) -> None:
    path = place.write("t.csv", table().replace("-0.568", word))
    error = refused(place, path, width=2)
    assert "line 3" in error and f'"{word}"' in error and "--fill" in error
    weights, _ = fit(place, path, "--fill", "2")
    expected, _ = fit(place, place.write("plain.csv", table().replace("-0.568", "2")))
    assert weights == expected


def test_words_for_missing_among_words_are_categories(place: Workplace) -> None:
    path = place.write("t.csv", "a,label\nx,0\n-,1\nx,1\n")
    fit(place, path, width=2)


def test_a_number_column_that_turns_into_categories_is_said(place: Workplace) -> None:
    path = place.write("t.csv", table().replace("-0.216", "abc"))
    error = refused(place, path, width=2)
    assert 'column "b" holds categories' in error and '"abc" in line 4' in error


def test_columns_of_words_are_not_said(place: Workplace) -> None:
    _, said = fit(place, place.write("t.csv", "a,label\nx,0\ny,1\n"))
    assert "categories" not in said


def test_rows_without_a_label(place: Workplace) -> None:
    path = place.write("t.csv", table([*ROWS[:2], [5, 5, ""], *ROWS[2:]]))
    assert "line 4" in refused(place, path, width=2)
    expected, _ = fit(place, place.write("plain.csv", table()))
    weights, said = fit(place, path, "--fill", "mean")
    assert weights == expected
    assert "1 row without a label" in said and "line 4" in said


def test_prediction_needs_no_labels(place: Workplace) -> None:
    fit(place, place.write("t.csv", table()))
    empty = place.write("new.csv", table([[*row[:2], ""] for row in ROWS]))
    done = place.run(
        "predict", place.folder / "out.keras", "--data", empty, "--like", place.folder / "t.csv",
        "--output", place.folder / "p.npy",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.load(place.folder / "p.npy").shape == (4, 2)


def test_a_series_with_gaps(place: Workplace) -> None:
    """Its label is one of its features: filled as such."""
    values = ["" if i == 7 else str(i % 5) for i in range(40)]
    path = place.write("s.csv", "day,v\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    model = place.model([4], dense(1, "linear"))
    options = {"data": path, "columns": "v", "window": 4, "fill": "mean", "loss": "mse"}
    plain = place.fit(model, **options)
    assert plain.returncode == 0, plain.stderr
    loss = place.epochs()[-1]["loss"]
    named = place.fit(model, **options, label_column="v")
    assert named.returncode == 0, named.stderr
    assert place.epochs()[-1]["loss"] == loss
    assert "line 9" in refused_series(place, model, path)


def refused_series(place: Workplace, model: Path, path: Path) -> str:
    done = place.fit(model, data=path, columns="v", window=4, loss="mse")
    assert done.returncode == DATA
    return done.stderr


def test_more_categories_than_are_kept(place: Workplace) -> None:
    """The bound that is passed is the one that is named."""
    lines = (",".join(f"c{column}v{row}" for column in range(30)) + ",0" for row in range(5000))
    path = place.write("t.csv", "\n".join(lines) + "\n")
    error = refused(place, path, width=2)
    assert "all columns" in error and "8 MiB" in error and "10000" not in error


def test_data_files_of_the_uci_repository(place: Workplace) -> None:
    plain = table().split("\n", 1)[1]
    same_as_plain(place, plain, "iris.data")
    blanks = "\n".join("  " + "   ".join(map(str, row)) for row in ROWS)
    same_as_plain(place, blanks, "housing.data")


def test_text_in_utf_16(place: Workplace) -> None:
    text = "the cat sat on the mat and the dog sat on the cat again " * 20
    model = place.model([8], dense(16, "softmax"))
    losses = []
    for encoding in ["utf-8", "utf-16", "utf-8-sig"]:
        (place.folder / "t.txt").write_bytes(text.encode(encoding))
        done = place.fit(
            model, data=place.folder / "t.txt", text="words",
            loss="sparse_categorical_crossentropy",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        losses.append(place.epochs()[-1]["loss"])
    assert losses[0] == losses[1] == losses[2]
    (place.folder / "t.txt").write_bytes(text.encode("utf-16-le"))
    for kind in ["words", "characters"]:
        done = place.fit(
            model, data=place.folder / "t.txt", text=kind, loss="sparse_categorical_crossentropy"
        )
        assert done.returncode == DATA, done.stderr
        assert "iconv" in done.stderr


def test_fit_says_what_a_table_became(place: Workplace) -> None:
    _, said = fit(place, place.write("t.csv", table()))
    assert 't.csv: the label is column "label"; 2 other columns became 2 numbers a sample.' in said
    words = "a,city,label\n" + "".join(f"{i},{'xyz'[i % 3]},{i % 2}\n" for i in range(6))
    _, said = fit(place, place.write("w.csv", words), width=4)
    assert "2 other columns became 4 numbers a sample." in said


def test_a_column_of_words_that_became_many_numbers(place: Workplace) -> None:
    words = "a,who,label\n" + "".join(f"{i},n{i},{i % 2}\n" for i in range(9))
    said = refused(place, place.write("w.csv", words), width=2)
    assert "Column who became 9 numbers" in said and "--columns" in said
    _, said = fit(place, place.write("w.csv", words), "--categories", "index")
    assert "became 2 numbers" in said


def test_standardized_models_are_evaluated_by_the_same_scale(place: Workplace) -> None:
    """The command that fit prints gives the loss that fit had; without --like it is said."""
    data = place.write("t.csv", table([[1000 * row[0] + 500, row[1], row[2]] for row in ROWS]))
    shifted = table([[1000 * row[0] + 9000, row[1], row[2]] for row in ROWS])
    test = place.write("test.csv", shifted)
    _, said = fit(place, data, "--standardize")
    (command,) = re.findall(r"^  plimsoll (evaluate .*)$|^  \S*plimsoll (evaluate .*)$", said, re.M)
    words = shlex.split("".join(command))
    assert "--standardize" in words and words[words.index("--like") + 1] == str(data)
    assert words[words.index("--data") + 1] == "TEST.csv" and "--weights" not in words
    words[words.index("--data") + 1] = str(test)
    done = place.run(*words)
    assert done.returncode == 0 and "by their own mean" not in done.stderr, done.stderr
    own = [word for i, word in enumerate(words)
           if word != "--like" and words[i - 1] != "--like"]  # fmt: skip
    done = place.run(*own)
    assert done.returncode == 0 and "by their own mean" in done.stderr, done.stderr
    assert "--like TRAIN.csv" in done.stderr
