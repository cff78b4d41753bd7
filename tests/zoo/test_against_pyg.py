"""Where we rewrote what PyG has, or call its layers piece by piece: the same numbers with the same weights."""

from dataclasses import replace

import torch
from torch_geometric.nn import dense_diff_pool

from mooring.zoo.base import Rows
from support import assert_close
from zoo.rivals import SPEC, build, call


def one_graph(nodes: int = 7) -> torch.Tensor:
    return call(sizes=(nodes,)).x


def test_transformer_is_gps_without_a_convolution() -> None:
    module, given = build("transformer"), call(sizes=(7, 2, 4))
    order = given.batch.argsort()
    sorted_ = given.pick(order)
    edges = torch.empty(2, 0, dtype=torch.long)
    assert_close(sorted_.to(module), module.block(sorted_.x, edges, sorted_.batch))  # type: ignore[operator,union-attr]


def test_performer_is_pygs_where_nothing_is_padded() -> None:
    module, x = build("performer"), one_graph()
    theirs = module.block(x, torch.empty(2, 0, dtype=torch.long), torch.zeros(7, dtype=torch.long))  # type: ignore[operator,union-attr]
    assert_close(module(x), theirs)


def test_pygs_performer_depends_on_padding_and_ours_does_not() -> None:
    module, given = build("performer"), call(sizes=(7, 2, 4))
    order = given.batch.argsort()
    sorted_ = given.pick(order)
    small = sorted_.batch == 1
    theirs = module.block(sorted_.x, torch.empty(2, 0, dtype=torch.long), sorted_.batch)[small]  # type: ignore[operator,union-attr]
    alone = module(sorted_.x[small])
    assert_close(sorted_.to(module)[small], alone)
    assert float((theirs - alone).detach().abs().max()) > 1e-4


def test_isab_is_pygs_block() -> None:
    module, x = build("isab"), one_graph()
    assert_close(module(x), module.block(x.unsqueeze(0)).squeeze(0))  # type: ignore[operator,union-attr]


def test_softmax_over_slots_is_diffpools_assignment() -> None:
    """DiffPool's new features are the sums of ``softmax(S)`` over the nodes; so is the total of our write."""
    spec = replace(SPEC, heads=1, temperature=0.7)
    write, x = build("gmt", spec).write, one_graph()
    keys, queries = x @ write.lin_key.weight.T, write.slot @ write.lin_query.weight.T  # type: ignore[operator,union-attr]
    scores = keys @ queries.T / (0.7 * spec.channels**0.5)
    values = x @ write.lin_value.weight.T  # type: ignore[operator,union-attr]
    theirs = dense_diff_pool(values, torch.eye(7, dtype=torch.float64), scores)[0].squeeze(0)
    assert_close(write(x).total.flatten(2).squeeze(0), theirs)  # type: ignore[operator]


def test_a_star_is_gin_on_the_complete_bipartite_graph() -> None:
    module, x = build("gin-sum"), one_graph()
    with torch.no_grad():
        module.conv.eps.fill_(0.3)  # type: ignore[operator,union-attr]
    sources, targets = torch.arange(7) < 4, torch.arange(7) >= 3
    edges = torch.cartesian_prod(torch.arange(4), torch.arange(7)).T
    theirs = x + module.conv((x, x), edges)  # type: ignore[operator]
    out = module(x, sources=sources, targets=targets)
    assert_close(out[targets], theirs[targets])


def test_readouts_are_pygs_aggregations() -> None:
    given = call(sizes=(7, 2, 4))
    rows = Rows(given.x, given.batch, 3, torch.zeros(13, dtype=torch.float64))
    for name in ("pna", "deep-sets"):
        module = build(name)
        pooled = module.aggregation(given.x, given.batch, dim_size=3)  # type: ignore[operator]
        assert_close(module.gather(rows).squeeze(1), module.update(pooled))  # type: ignore[operator]
