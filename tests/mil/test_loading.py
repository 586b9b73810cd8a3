"""Files as the field has them: each format holds the same bags, and what is wrong is said in one line."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

from tag2box.errors import InputError
from tag2box.mil import load_mil, make_bags

X = np.array([[1.5, 0.0], [2.0, -3.0], [0.0, 4.0], [5.0, 0.5], [6.0, 7.0]])
IDS = ["b", "a", "b", "c", "a"]  # the bags are not in one piece
LABELS = [1, 0, 1, 0, 0]


def rows():
    return [(IDS[i], X[i], LABELS[i]) for i in range(5)]


def andrews(path):
    ids = np.array([[2, 1, 2, 3, 1]])
    savemat(path, {"features": sparse.csc_array(X), "bag_ids": ids, "labels": sparse.csc_array([LABELS])})


def toolbox(path):
    names = np.array(IDS, dtype=object)[:, None]
    savemat(path, {"x": {"data": X, "nlab": np.array(LABELS)[:, None], "ident": {"milbag": names}}})


def svm(path):
    lines = [f"{i}:{b}:{y} 1:{x[0]} 2:{x[1]} # row" for i, (b, x, y) in enumerate(rows())]
    path.write_text("\n".join(["# a comment", *lines]))


def c45(path):
    path.write_text("".join(f"{b},{b}_{i},{x[0]},{x[1]},{y}.\n" for i, (b, x, y) in enumerate(rows())))


def flat_arff(path):
    head = "@relation r\n@attribute bag {a,b,c}\n@attribute u numeric\n@attribute v numeric\n"
    body = "".join(f"{b},{x[0]},{x[1]},{y}\n" for b, x, y in rows())
    path.write_text(f"{head}@attribute label {{0,1}}\n@data\n{body}")


def weka(path):
    head = "@relation r\n@attribute name {a,b,c}\n@attribute bag relational\n@attribute u numeric\n"
    head += "@attribute v numeric\n@end bag\n@attribute class {0,1}\n@data\n"
    body = ""
    for name, label in (("b", 1), ("a", 0), ("c", 0)):
        inside = "\\n".join(f"{x[0]},{x[1]}" for b, x, _ in rows() if b == name)
        body += f'{name},"{inside}",{label}\n'
    path.write_text(head + body)


def table(path):
    path.write_text("u,bag,v,label\n" + "".join(f"{x[0]},{b},{x[1]},{y}\n" for b, x, y in rows()))


def numpy_parts(path):
    order = [0, 2, 1, 4, 3]
    np.savez(path, X=X[order], offsets=[0, 2, 4, 5], y=[1, 0, 0])


FILES = {
    "andrews.mat": andrews,
    "toolbox.mat": toolbox,
    "trec.svm": svm,
    "musk.data": c45,
    "flat.arff": flat_arff,
    "weka.arff": weka,
    "table.csv": table,
    "parts.npz": numpy_parts,
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_holds_the_same_bags(tmp_path, name):
    FILES[name](tmp_path / name)
    bags, y = load_mil(tmp_path / name)
    assert y.tolist() == [1, 0, 0]
    expected = [X[[0, 2]], X[[1, 4]], X[[3]]]  # b, a, c: in order of appearance
    for found, matrix in zip(bags, expected, strict=True):
        np.testing.assert_allclose(found, matrix)


def test_text_stays_sparse(tmp_path):
    (tmp_path / "t.svm").write_text("0:7:1 3:0.5\n1:7:1 900:1\n2:8:-1 5:2\n")
    bags, y = load_mil(tmp_path / "t.svm")
    assert sparse.issparse(bags.X)
    assert (bags.shape, y.tolist()) == ((2, 900), [1, -1])


def test_columns_by_number_and_labels_by_name(tmp_path):
    (tmp_path / "t.csv").write_text("yes,7,1,2\nno,8,3,4\nyes,7,5,6\n")
    bags, y = load_mil(tmp_path / "t.csv", bag=1, label=0)
    assert (bags.sizes.tolist(), y.tolist()) == ([2, 1], ["yes", "no"])


def test_real_sets_are_loaded(mil_folder):
    bags, y = load_mil(mil_folder / "musk1.npz")
    assert (len(bags), bags.n_instances, int((y > 0).sum())) == (92, 476, 47)
    bags, _ = load_mil(mil_folder / "trec1.npz")
    assert sparse.issparse(bags.X)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "bag,x,label\na,1,0\na,2,1\n", "bag a has rows of more than one label"),
        ("t.csv", "id,x,label\na,1,0\n", "no column 'bag'"),
        ("t.csv", "bag,x,label\na,one,0\n", "cannot be read as .csv"),
        ("t.csv", "bag,x,label\na,nan,0\n", "a NaN"),
        ("t.csv", "bag,x,y,label\na,1,2,0\nb,1,1\n", "cannot be read"),
        ("t.csv", "", "cannot be read"),
        ("t.svm", "0:1 1:2\n", "cannot be read as .svm"),
        ("t.svm", "0:1:1 0:2\n", "counted from 1"),
        ("t.mat", "no matlab", "cannot be read as .mat"),
        ("t.npz", "no zip", "cannot be read as .npz"),
        ("t.txt", "1 2 3", "is none of"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=said) as error:
        load_mil(tmp_path / name)
    assert "\n" not in str(error.value)


def test_nothing_is_unpickled(tmp_path):
    class Mine:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    np.savez(tmp_path / "t.npz", X=np.array([Mine()], dtype=object), offsets=[0, 1], y=[1])
    with pytest.raises(InputError, match="cannot be read"):
        load_mil(tmp_path / "t.npz")
    (tmp_path / "u.npz").write_bytes(pickle.dumps(Mine()))
    with pytest.raises(InputError, match="cannot be read"):
        load_mil(tmp_path / "u.npz")


def test_toy_bags():
    bags, y, shifted = make_bags(30, 4, size=(2, 6), n_witnesses=2, random_state=1, return_instances=True)
    per_bag = np.add.reduceat(shifted, bags.offsets[:-1])
    np.testing.assert_array_equal(per_bag, 2 * y)
    assert bags.sizes.min() >= 2
    assert bags.sizes.max() <= 6
    again = make_bags(30, 4, size=(2, 6), n_witnesses=2, random_state=1)[0]
    np.testing.assert_array_equal(bags.X, again.X)
    with pytest.raises(InputError, match="size must be"):
        make_bags(size=(1, 3), n_witnesses=2)
