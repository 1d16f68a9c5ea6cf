"""The matrices of samples, bits and divisors, quantiles of numbers alone, sparsemax: against Keras.

What has a gradient stands behind a layer with weights and is compared by one step in float64; what
works on integers is compared number by number.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from harness import Case, assert_one_step, assert_refused, predicted, run_plimsoll
from keras import layers as L
from keras import ops
from sequence_cases import floats, functional

Call = Callable[[Any], Any]
SHAPE = (5, 4)


def on(call: Call) -> Case:
    return Case(functional([SHAPE], call), floats(*SHAPE), floats(3), "mse")


def trained(x: Any) -> Any:
    return L.Dense(4)(x)


def square(x: Any) -> Any:
    """Matrices far from singular: numbers of either sign, and more on the diagonal."""
    return L.Dense(4)(x[:, :4]) + 3.0 * np.eye(4, dtype="float32")[None]


def definite(x: Any) -> Any:
    """Symmetric and positive definite: A Aᵀ and more on the diagonal."""
    a = L.Dense(4)(x[:, :4])
    return ops.matmul(a, ops.transpose(a, (0, 2, 1))) + np.eye(4, dtype="float32")[None]


def of_eigenvectors(x: Any) -> Any:
    """This depends on eigenvectors, but not on their signs."""
    values, vectors = ops.eigh(definite(x))
    return ops.matmul(vectors * ops.tanh(values)[:, None], ops.transpose(vectors, (0, 2, 1)))


def of_singular_vectors(x: Any) -> Any:
    left, values, right = ops.svd(x, full_matrices=False)
    return ops.matmul(left * ops.tanh(values)[:, None], right)


def wide(x: Any) -> Any:
    return trained(x)[:, :3]


def matrices() -> dict[str, Case]:
    return {
        "cholesky": on(lambda x: ops.cholesky(definite(x))),
        "cholesky upper": on(lambda x: ops.cholesky(definite(x), upper=True)),
        "cholesky_inverse": on(lambda x: ops.cholesky_inverse(ops.tril(square(x)))),
        "cholesky_inverse upper": on(lambda x: ops.cholesky_inverse(square(x), upper=True)),
        "det": on(lambda x: ops.det(square(x))[:, None]),
        "eigh": on(of_eigenvectors),
        "eigh of values alone": on(lambda x: ops.eigh(definite(x))[0][:, None] * trained(x)),
        "eigh of vectors alone": on(lambda x: ops.square(ops.eigh(definite(x))[1])),
        "inv": on(lambda x: ops.inv(square(x))),
        "logdet": on(lambda x: ops.logdet(definite(x))[:, None] * trained(x)[:, 0]),
        "slogdet": on(lambda x: ops.slogdet(square(x))[1][:, None] * trained(x)[:, 0]),
        "pinv": on(lambda x: ops.pinv(trained(x) + 3.0 * np.eye(5, 4, dtype="float32")[None])),
        "pinv wide": on(lambda x: ops.pinv(trained(x)[:, :3])),
        "pinv square": on(lambda x: ops.pinv(square(x))),
        "qr wide": on(lambda x: ops.matmul(*ops.qr(wide(x))) + ops.qr(wide(x))[1]),
        "qr wide of R": on(lambda x: ops.qr(wide(x))[1]),
        "svd of vectors": on(lambda x: of_singular_vectors(square(x))),
        "svd of vectors high": on(lambda x: of_singular_vectors(trained(x))),
        "svd of vectors wide": on(lambda x: of_singular_vectors(wide(x))),
        "svd of whole vectors": on(lambda x: ops.square(ops.svd(square(x))[0])),
        "svd": on(lambda x: ops.svd(trained(x), compute_uv=False)[:, None] * trained(x)),
        "svd wide": on(lambda x: ops.svd(trained(x)[:, :3], False, False)[:, None]),
        "solve": on(lambda x: ops.solve(square(x), trained(x)[:, :4, :3])),
        "solve for a vector": on(lambda x: ops.solve(square(x), trained(x)[:, 0])),
        "solve_triangular": on(lambda x: ops.solve_triangular(square(x), trained(x)[:, :4])),
        "solve_triangular lower": on(
            lambda x: ops.solve_triangular(square(x), trained(x)[:, 1], lower=True)
        ),
    }


def holes(x: Any) -> Any:
    """Numbers, and none where the data are large."""
    return ops.where(x > 0.8, ops.sqrt(-ops.abs(x)), trained(x))


def quantiles() -> dict[str, Case]:
    def each(name: str, *more: Any, **options: Any) -> Case:
        return on(lambda x: ops.nan_to_num(getattr(ops, name)(holes(x), *more, **options)))

    return {
        "nanmedian": each("nanmedian", axis=1),
        "nanmedian kept": each("nanmedian", axis=2, keepdims=True),
        "nanquantile": each("nanquantile", 0.37, axis=1),
        "nanquantile of all": each("nanquantile", 1.0, axis=2),
        "nanpercentile": each("nanpercentile", 30, axis=1, keepdims=True),
        "nanquantile lower": each("nanquantile", 0.4, axis=1, method="lower"),
        "nanquantile higher": each("nanquantile", 0.4, axis=1, method="higher"),
        "nanquantile nearest": each("nanquantile", 0.4, axis=1, method="nearest"),
        "nanquantile midpoint": each("nanquantile", 0.4, axis=1, method="midpoint"),
    }


def sparse() -> dict[str, Case]:
    return {
        "sparsemax": on(lambda x: ops.sparsemax(2 * trained(x))),
        "sparsemax of an inner axis": on(lambda x: ops.sparsemax(trained(x), axis=1)),
        "sparsemax by a layer": on(lambda x: L.Dense(6, activation="sparsemax")(x)),
        "sparsemax as a layer": on(lambda x: L.Activation("sparsemax")(0.3 * trained(x))),
    }


def numbers() -> dict[str, Case]:
    return {
        "nextafter": on(lambda x: ops.nextafter(trained(x), 2.0 * trained(x))),
        "nextafter of holes": on(lambda x: ops.nan_to_num(ops.nextafter(trained(x), holes(x)))),
        "vander": on(lambda x: ops.vander(0.5 * trained(x)[:, 0, 0], N=4)),
        "vander increasing": on(lambda x: ops.vander(trained(x)[:, 0, 0], N=3, increasing=True)),
        "vander of ones": on(lambda x: ops.vander(trained(x)[:, 0, 0], N=1) * trained(x)[:, 1]),
    }


CASES = matrices() | quantiles() | sparse() | numbers()


@pytest.mark.parametrize("name", CASES)
def test_one_step(name: str, tmp_path: Path) -> None:
    assert_one_step(tmp_path, CASES[name])


def test_what_is_no_matrix_gives_no_numbers(tmp_path: Path) -> None:
    """A row of NaN alone has no median; the determinant of what is singular is 0."""
    values = np.full((2, 3, 3), np.nan, "float32")
    values[0] = [[1, 2, 3], [2, 4, 6], [np.nan, 5, 1]]
    ours, theirs = predicted(tmp_path, lambda x: ops.nanmedian(x, axis=2), values)
    np.testing.assert_array_equal(ours, theirs)
    singular = np.array([[[1, 2], [2, 4]], [[0, 1], [1, 0]]], "float32")
    ours, theirs = predicted(tmp_path, ops.det, singular)
    np.testing.assert_array_equal(ours, theirs)


def test_matrices_without_full_rank(tmp_path: Path) -> None:
    """Matrices have rank 0 to 3; two have equal singular values."""
    low = np.random.default_rng(1).normal(size=(2, 4, 2)).astype("float32")
    values = np.zeros((5, 4, 3), "float32")
    values[1, 0, 0] = 2
    values[2] = low[0] @ np.random.default_rng(2).normal(size=(2, 3)).astype("float32")
    values[3, :3] = 3 * np.eye(3)
    values[4] = np.random.default_rng(3).normal(size=(4, 3))
    for call in (ops.pinv, lambda x: ops.pinv(x, rcond=0.6), lambda x: ops.svd(x, True, False)):
        for given in (values, np.swapaxes(values, 1, 2)):
            ours, theirs = predicted(tmp_path, call, np.ascontiguousarray(given))
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6)
    for call in (ops.matrix_rank, lambda x: ops.matrix_rank(x, tol=2.5)):
        ours, theirs = predicted(tmp_path, call, values)
        assert ours.dtype == theirs.dtype == "int32"
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(ours, [0, 0, theirs[2], 3, theirs[4]])


def with_dtype(model: str, layer: str, dtype: str) -> str:
    """A model's JSON where that layer has the type by that name."""
    tree = json.loads(model)
    for one in tree["config"]["layers"]:
        if one["config"].get("name") == layer:
            one["config"]["dtype"] = dtype
    return json.dumps(tree)


def turned(ours: np.ndarray, theirs: np.ndarray) -> int:
    """How many columns are the other one's negative; all are equal but for that."""
    signs = np.sign(np.sum(ours * theirs, axis=1, keepdims=True))
    np.testing.assert_allclose(ours * signs, theirs, atol=2e-3)
    return int(np.sum(signs < 0))


@pytest.mark.parametrize("extent", (1, 2, 3, 5, 8, 15, 24))
def test_signs_of_eigenvectors(extent: int, tmp_path: Path) -> None:
    """Signs are those of Keras's float32. Of large matrices some hang on the last bits there: no
    more differ than Keras's own when each number is moved by its last bit."""
    rng = np.random.default_rng(extent)
    given = rng.normal(size=(64, extent, extent)).astype("float32")
    given += np.swapaxes(given, 1, 2)
    ours, theirs = predicted(tmp_path, lambda x: ops.eigh(x)[1], given)
    moved = given * (1 + 2.0**-23 * rng.choice([-1, 1], given.shape)).astype("float32")
    floor = turned(np.asarray(ops.eigh(moved)[1]), theirs)
    found = turned(ours, theirs)
    print(f"{found} of {64 * extent} differ, of Keras's own {floor}")
    assert found <= floor
    ours, theirs = predicted(tmp_path, lambda x: ops.eigh(x)[0], given)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape", ((1, 1), (3, 3), (6, 6), (15, 15), (9, 4), (40, 15), (4, 9), (1, 5))
)
def test_signs_of_singular_vectors(shape: tuple[int, int], tmp_path: Path) -> None:
    given = np.random.default_rng(sum(shape)).normal(size=(64, *shape)).astype("float32")
    for place in range(3):
        ours, theirs = predicted(
            tmp_path, lambda x, place=place: ops.svd(x, full_matrices=False)[place], given
        )
        np.testing.assert_allclose(ours, theirs, atol=2e-3)


def test_matrices_without_directions(tmp_path: Path) -> None:
    """Zeros, a diagonal in falling order, equal values: what is told in one way is equal."""
    values = np.zeros((4, 3, 3), "float32")
    values[1] = np.diag([3, 2, 1])
    values[2] = np.eye(3)
    values[3] = np.diag([-1, 2, -3])
    for call in (lambda x: ops.eigh(x)[0], lambda x: ops.svd(x)[1], lambda x: ops.eigh(x)[1]):
        ours, theirs = predicted(tmp_path, call, values)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_signs_where_squares_vanish(tmp_path: Path) -> None:
    """Float32 has no square of a number this small: Keras takes it for 0 and reflects nothing."""
    symmetric = np.array([[[1, 0, 0], [0.5, 2, 0], [1e-20, 0.3, 3]]], "float32")
    ours, theirs = predicted(tmp_path, lambda x: ops.eigh(x)[1], symmetric)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    row = np.array([[[2, 1e-25, 1e-25]]], "float32")
    for given in (row, np.swapaxes(row, 1, 2).copy()):
        for place in range(3):
            ours, theirs = predicted(
                tmp_path, lambda x, at=place: ops.svd(x, full_matrices=False)[at], given
            )
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
    high = np.array([[[1, 2], [1e-20, 3]]], "float32")
    for place in range(2):
        ours, theirs = predicted(tmp_path, lambda x, at=place: ops.qr(x)[at], high)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_crossed_numbers(tmp_path: Path) -> None:
    """Bins of two numbers and of three, as numbers and as rows of classes."""
    numbers = np.array([[0, 1], [7, -3], [2**40, 5], [-1, -1]], "int64")
    crossings: dict[str, Call] = {
        "two": lambda x: L.HashedCrossing(1000)([x[:, 0], x[:, 1]]),
        "columns": lambda x: L.HashedCrossing(7)([x[:, :1], x[:, 1:]]),
        "rows": lambda x: L.HashedCrossing(9, output_mode="one_hot")([x[:, :1], x[:, 1:]]),
    }
    for name, call in crossings.items():
        ours, theirs = predicted(tmp_path, call, numbers)
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_array_equal(ours, theirs, name)


@pytest.mark.parametrize("dtype", ("int", "int8"))
def test_crossed_numbers_of_another_type(dtype: str, tmp_path: Path) -> None:
    """A part of a type's name is no type."""
    x = keras.Input((2,), dtype="int64")
    model = keras.Model(x, L.HashedCrossing(9, name="cross")([x[:, 0], x[:, 1]]))
    config = model.to_json()
    (tmp_path / "model.json").write_text(with_dtype(config, "cross", dtype))
    done = run_plimsoll("check", tmp_path / "model.json", check=False)
    assert done.returncode == 4 and "int32, int64 or float32" in done.stdout, done.stdout


VIEWS = [("int32", "float32"), ("int64", "int32"), ("uint8", "int32"),
         ("int32", "int8"), ("int8", "uint8"), ("float32", None)]  # fmt: skip


@pytest.mark.parametrize("given, to", VIEWS)
def test_views(given: str, to: str | None, tmp_path: Path) -> None:
    values = np.random.default_rng(6).integers(0, 200, (3, 5, 8)).astype(given)
    ours, theirs = predicted(tmp_path, lambda x: ops.view(x, to), values)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("given", ("float32", "float64", "bfloat16"))
def test_views_of_what_has_another_type_here(given: str, tmp_path: Path) -> None:
    """Numbers that float32 holds here would give float32's bytes, whatever Keras's type is."""
    words = "The type that Keras has is not kept"
    calls: tuple[Call, ...] = (
        lambda x: ops.view(x, "uint8"),
        lambda x: ops.view(ops.abs(ops.cast(x, "int32")), "uint8"),
    )
    for call in calls:
        assert_refused(tmp_path, keras.Input((5, 8), dtype=given), call, words)


@pytest.mark.parametrize("dtype", ("int32", "int64"))
def test_places_of_numbers(dtype: str, tmp_path: Path) -> None:
    values = np.array([[0, 5, 23], [11, 12, 7]], dtype)
    for place in range(3):
        for call in (
            lambda x, place=place: ops.unravel_index(x, (2, 3, 4))[place],
            lambda x, place=place: ops.unravel_index(x[:, 1], (2, 3, 4))[place],
        ):
            ours, theirs = predicted(tmp_path, call, values)
            np.testing.assert_array_equal(ours, theirs)


BITS: dict[str, Call] = {
    "and": lambda x: ops.bitwise_and(x[:, :3], x[:, 3:]),
    "or": lambda x: ops.bitwise_or(x[:, :3], x[:, 3:]),
    "xor": lambda x: ops.bitwise_xor(x[:, :3], x[:, 3:]),
    "not": lambda x: ops.bitwise_not(x),
    "invert": lambda x: ops.bitwise_invert(x),
    "left_shift": lambda x: ops.left_shift(x, 3),
    "bitwise_left_shift": lambda x: ops.bitwise_left_shift(x, 5),
    "right_shift": lambda x: ops.right_shift(x, 2),
    "bitwise_right_shift": lambda x: ops.bitwise_right_shift(
        x[:, :3], ops.bitwise_and(x[:, 3:], x[:, 3:] * 0 + 7)
    ),
    "gcd": lambda x: ops.gcd(x[:, :3], x[:, 3:]),
    "lcm": lambda x: ops.lcm(x[:, :3], x[:, 3:]),
    "gcd of rows": lambda x: ops.gcd(x, x[:, :1]),
}


TYPED = [(name, dtype) for name in BITS for dtype in ("int32", "int64", "uint8")]


@pytest.mark.parametrize("name, dtype", TYPED)
def test_bits(name: str, dtype: str, tmp_path: Path) -> None:
    values = np.array([[12, -18, 7, 30, 45, 0], [-128, 127, 0, 6, -9, 0]], "int32").astype(dtype)
    ours, theirs = predicted(tmp_path, BITS[name], values)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def test_bits_of_several_types(tmp_path: Path) -> None:
    values = np.array([[12, -18, 7], [-128, 127, 0]], "int32")
    calls: dict[str, Call] = {
        "wider": lambda x: ops.bitwise_xor(x, ops.cast(x, "int64") * 3),
        "bools and integers": lambda x: ops.bitwise_or(x > 0, x),
    }
    for name, call in calls.items():
        ours, theirs = predicted(tmp_path, call, values)
        np.testing.assert_array_equal(ours, theirs, name)


REFUSED: dict[str, tuple[Call, str]] = {
    "several matrices": (
        lambda x: ops.det(ops.reshape(x, (-1, 5, 2, 2))), "a square matrix for each sample"
    ),
    "further singular vectors": (lambda x: ops.svd(x)[0], "expected full_matrices=False"),
    "many singular vectors": (
        lambda x: ops.svd(L.Dense(16)(x), full_matrices=False)[0], "expected at most 15 columns"
    ),
    "powers for each sample": (lambda x: ops.vander(x[:, 0, 0]), "expected N, received none"),
    "several quantiles": (
        lambda x: ops.nanquantile(x, [0.1, 0.2], axis=1), "one number as q"
    ),
    "through the batch": (lambda x: ops.sparsemax(x, axis=0), "an axis after the batch"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    call, words = REFUSED[name]
    assert_refused(tmp_path, keras.Input(SHAPE), call, words)
