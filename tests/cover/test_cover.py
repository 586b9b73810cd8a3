from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.cover.graph import cover_graph
from tag2box.cover.greedy import greedy_cover
from tag2box.cover.mining import negative_mining
from tag2box.errors import InputError
from tag2box.neighbors.search import Neighbors

G = {"identity": float, "sqrt": np.sqrt, "log1p": np.log1p}


def table(seed, n_images=6, per=3, k=4, levels=4):
    """A made table of neighbors; few distinct distances, so that ties are common."""
    rng = np.random.default_rng(seed)
    n = n_images * per
    image = np.stack([rng.permutation(n_images)[:k] for _ in range(n)]).astype(np.int32)
    window = (image * per + rng.integers(0, per, image.shape)).astype(np.int32)
    distance = np.sort(rng.integers(0, levels, image.shape), axis=1).astype(np.float32)
    own = (np.arange(n) // per).astype(np.int32)
    return Neighbors(image, window, distance, np.arange(n), own)


def edges(neighbors, positive, k):
    """{v: ([boxes], total)} as the definition has it."""
    out = {}
    for v in range(len(neighbors.image)):
        if positive[neighbors.own[v]]:
            near = [j for j in range(k) if positive[neighbors.image[v, j]]]
            boxes = [int(neighbors.window[v, j]) for j in near]
            out[v] = boxes, float(sum(neighbors.distance[v, j] for j in near))
    return out


def slow_F(graph, S, t, g, per=3):
    covered = {u for v in S for u in graph[v][0]}
    count = {}
    for u in covered:
        count[u // per] = count.get(u // per, 0) + 1
    return sum(G[g](min(t, c)) for c in count.values())


def naive_greedy(graph, t, g, alpha):
    S, gains, whole = [], [], slow_F(graph, graph, t, g)
    while slow_F(graph, S, t, g) < alpha * whole - 1e-9:
        gain = {v: slow_F(graph, [*S, v], t, g) - slow_F(graph, S, t, g) for v in graph}
        best = min(graph, key=lambda v: (-round(gain[v], 6), graph[v][1], v))
        S.append(best)
        gains.append(gain[best])
    return S, gains


cases = given(
    st.integers(0, 10_000),
    st.integers(1, 3),
    st.sampled_from(sorted(G)),
    st.sampled_from([0.5, 0.95, 1.0]),
    st.integers(1, 4),
)


def case(seed, k):
    neighbors = table(seed)
    positive = np.random.default_rng(seed).random(6) < 0.7
    return edges(neighbors, positive, k), cover_graph(neighbors, positive, k)


@cases
def test_lazy_is_naive_pick_by_pick(seed, t, g, alpha, k):
    slow, graph = case(seed, k)
    cover = greedy_cover(graph, t, g, alpha)
    picks, gains = naive_greedy(slow, t, g, alpha)
    assert cover.selected.tolist() == picks
    np.testing.assert_allclose(cover.gains, gains, rtol=1e-6)
    assert pytest.approx(slow_F(slow, picks, t, g), rel=1e-6) == cover.F_S
    assert pytest.approx(slow_F(slow, slow, t, g), rel=1e-6) == cover.F_V
    assert alpha * cover.F_V * (1 - 1e-9) <= cover.F_S


@cases
def test_gains_fall_as_F_is_submodular(seed, t, g, alpha, k):
    cover = greedy_cover(case(seed, k)[1], t, g, alpha)
    assert (np.diff(cover.gains) <= 0).all()
    assert (cover.gains > 0).all()
    assert cover.gains.sum() == pytest.approx(cover.F_S)


@cases
def test_greedy_keeps_the_lemma_and_its_own_bound(seed, t, g, alpha, k):
    """In four images of three windows, all positive: few enough to try every selection."""
    neighbors, positive = table(seed, n_images=4), np.ones(4, bool)
    slow = edges(neighbors, positive, k)
    cover = greedy_cover(cover_graph(neighbors, positive, k), t, g, alpha)
    goal = alpha * slow_F(slow, slow, t, g) - 1e-9
    optimum = next(
        size
        for size in range(1, len(slow) + 1)
        if any(slow_F(slow, S, t, g) >= goal for S in combinations(slow, size))
    )
    assert 1 <= cover.at_least <= optimum <= len(cover.selected)
    last = G[g](t) - G[g](t - 1)
    assert len(cover.selected) <= np.ceil(optimum * (1 + np.log(k * G[g](1) / last)))
    assert cover.bound == len(cover.selected) / cover.at_least


@cases
def test_covered_windows_are_the_neighbors_of_the_selection_in_order(seed, t, g, alpha, k):
    slow, graph = case(seed, k)
    cover = greedy_cover(graph, t, g, alpha)
    expected, by = [], []
    for pick, v in enumerate(cover.selected):
        new = [u for u in slow[v][0] if u not in expected]
        expected += new
        by += [pick] * len(new)
    assert cover.covered.tolist() == expected
    assert cover.by.tolist() == by
    assert cover.image.tolist() == [u // 3 for u in expected]
    images, rows = cover.first()
    assert rows.tolist() == [next(u for u in expected if u // 3 == i) for i in images]


@cases
def test_score_takes_windows_by_share_and_images_once(seed, t, g, alpha, k):
    slow, graph = case(seed, k)
    cover = greedy_cover(graph, t, g, alpha, method="score")
    left, S, covered = sorted(slow, key=lambda v: (-len(slow[v][0]), slow[v][1], v)), [], []
    while left and slow_F(slow, S, t, g) < alpha * slow_F(slow, slow, t, g) - 1e-9:
        v = left.pop(0)
        full = {i for i in range(6) if sum(u // 3 == i for u in covered) >= t}
        new = [u for u in slow[v][0] if u // 3 not in full and u not in covered]
        if new:
            S.append(v)
            covered += new
    assert cover.selected.tolist() == S
    assert cover.covered.tolist() == covered
    assert alpha * cover.F_V * (1 - 1e-9) <= cover.F_S


def picks_without_ties(incidence):
    """How many picks there are before two windows gain the same: so far every greedy does the same."""
    left, picks = incidence.astype(int), 0
    while True:
        gain = np.sort(left.sum(axis=1))
        if gain[-1] == gain[-2]:
            return picks
        left = left * (1 - left[left.sum(axis=1).argmax()])
        picks += 1


def test_apricot_covers_the_same_at_t_1():
    apricot = pytest.importorskip("apricot")
    for seed in range(400):
        graph = cover_graph(table(seed, n_images=60, per=1, k=25), np.arange(60) % 2 == 0, 25)
        part_of = graph.parts()[1]
        incidence = np.zeros((len(graph.V), part_of.max() + 1))
        incidence[np.repeat(np.arange(len(graph.V)), graph.degree), part_of[graph.box]] = 1
        if (picks := picks_without_ties(incidence)) > 2:
            break
    cover = greedy_cover(graph, alpha=1.0)
    theirs = apricot.MaxCoverageSelection(picks, optimizer="lazy").fit(incidence)
    assert picks > 2
    assert graph.V[theirs.ranking].tolist() == cover.selected[:picks].tolist()
    assert theirs.gains.tolist() == cover.gains[:picks].tolist()


def test_distinct_boxes_count_once():
    """Two windows with the same two boxes, and one with another box of the first image."""
    image = np.array([[0, 1], [0, 1], [0, 1]], np.int32)
    window = np.array([[0, 3], [0, 3], [1, 3]], np.int32)
    distance = np.array([[0, 1], [0, 2], [0, 9]], np.float32)
    graph = cover_graph(Neighbors(image, window, distance), [0, 1], 2)
    cover = greedy_cover(graph, t=2, alpha=1.0)
    assert cover.selected.tolist() == [0, 2]
    assert cover.gains.tolist() == [2, 1]
    assert cover.covered.tolist() == [0, 3, 1]
    assert cover.F_V == 3


def test_t_without_limit_counts_every_box():
    graph = case(3, 4)[1]
    assert len(graph.U) == greedy_cover(graph, t=None, alpha=1.0).F_S
    assert len(graph.U) == greedy_cover(graph, t=10**6, alpha=1.0).F_S


def test_a_smaller_k_and_another_class_need_no_new_table():
    wide, positive = table(5), np.array([True, False, True, True, False, True])
    narrow = Neighbors(wide.image[:, :2], wide.window[:, :2], wide.distance[:, :2], wide.queries, wide.own)
    a, b = cover_graph(wide, positive, 2), cover_graph(narrow, np.flatnonzero(positive), 2)
    np.testing.assert_array_equal(a.box, b.box)
    np.testing.assert_array_equal(a.total, b.total)
    assert a.V.tolist() == [v for v in range(18) if positive[v // 3]]


def test_only_seeds_are_selected_but_any_box_is_covered():
    neighbors, seeds = table(4), np.arange(18) % 3 == 0
    graph = cover_graph(neighbors, np.ones(6, bool), 4, seeds=seeds)
    assert graph.V.tolist() == [0, 3, 6, 9, 12, 15]
    assert set(graph.U) == set(neighbors.window[::3].ravel())


@pytest.mark.parametrize("method", ["marginal", "score"])
def test_a_class_of_background_ends_with_nothing_and_says_so(method):
    """Every window's nearest images are negative ones."""
    image = np.full((4, 2), [4, 5], np.int32)
    table = Neighbors(
        image, image * 10, np.ones((4, 2), np.float32), np.arange(4), np.arange(4, dtype=np.int32)
    )
    cover = greedy_cover(cover_graph(table, [0, 1, 2, 3], 2), method=method)
    assert len(cover.selected) == len(cover.covered) == cover.F_S == cover.F_V == cover.at_least == 0
    assert cover.bound == 1
    assert "nothing to cover" in cover.message


def test_images_that_no_window_reaches_are_reported():
    graph = cover_graph(table(1), np.arange(6) < 3, 1)
    alone = cover_graph(table(1), np.append(np.arange(6) < 3, True), 1)
    assert greedy_cover(graph).selected.tolist() == greedy_cover(alone).selected.tolist()
    assert "1 of 4 positive images" in greedy_cover(alone).message


def test_any_concave_g_will_do_and_no_other():
    graph = case(2, 4)[1]
    a, b = greedy_cover(graph, 3, "sqrt"), greedy_cover(graph, 3, np.sqrt)
    np.testing.assert_array_equal(a.selected, b.selected)
    for g in (np.square, lambda x: -x, lambda x: x + 1, lambda x: np.nan * x, lambda x: 1.0):
        with pytest.raises(InputError, match="g must"):
            greedy_cover(graph, 3, g)


@given(st.integers(0, 10_000))
def test_negative_mining_takes_the_farthest_window_of_each_image(seed):
    neighbors, positive = table(seed), np.random.default_rng(seed).random(6) < 0.5
    cover = negative_mining(neighbors, positive)
    best = {}
    for v in range(18):
        if positive[v // 3]:
            far = [
                d for d, i in zip(neighbors.distance[v], neighbors.image[v], strict=True) if not positive[i]
            ]
            key = (0, -far[0], v) if far else (-1, -neighbors.distance[v, -1], v)
            best[v // 3] = min(best.get(v // 3, key), key)
    assert cover.selected.tolist() == [v for *_, v in sorted(best.values())]
    assert cover.image.tolist() == [v // 3 for v in cover.selected]


def test_bad_input_is_refused():
    graph = case(0, 2)[1]
    for wrong in ({"t": 0}, {"alpha": 0}, {"alpha": 1.1}, {"method": "best"}, {"g": "cube"}):
        with pytest.raises(InputError):
            greedy_cover(graph, **wrong)
    for k in (0, 5):
        with pytest.raises(InputError, match="k must"):
            cover_graph(table(0), np.ones(6, bool), k)
    with pytest.raises(InputError, match="mask"):
        cover_graph(table(0), np.ones(3, bool), 2)
    twice = Neighbors(np.zeros((1, 2), np.int32), np.zeros((1, 2), np.int32), np.zeros((1, 2), np.float32))
    with pytest.raises(InputError, match="listed twice"):
        cover_graph(twice, [0], 2)
    with pytest.raises(InputError, match="query's image"):
        negative_mining(twice, [0])
