"""The published numbers our tables stand beside, each with the label or source it is taken from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TITLES: Mapping[str, str] = {
    "mpnn": "MPNN",
    "mpnn-additive": "MPNN, messages added",
    "mpnn-summed": "MPNN, embeddings added",
    "none": "No memory",
    "vn": "VN",
    "vn-joint": "VN, joint MLP",
    "vn-sum": "VN, sum",
    "vn-max": "VN, max",
    "cross-attn": "Cross-Attn VN",
    "anchored": "Anchored Cross-Attn VN",
    "mean": "Mean pool",
    "sum": "Sum pool",
    "sum-raw": "Sum pool, raw",
    "sum-log": "Sum pool, log head",
    "max": "Max pool",
    "pna": "PNA",
    "gcn": "GCN",
    "gin": "GIN",
    "gat": "GAT",
    "sage": "SAGE",
    "transformer": "Transformer",
}

# The order rows and lines appear in, weakest first as in the paper; names outside it follow by alphabet.
ORDER = (
    "none", "mpnn-additive", "mpnn-summed", "mpnn", "gcn", "gin", "sage", "gat", "transformer", "mean", "max", "pna",
    "sum-raw", "sum-log", "sum", "vn", "vn-joint", "vn-max", "vn-sum", "cross-attn", "anchored",
)  # fmt: skip

# tab:counted, accuracy in %, seed 0: label, count, both.
COUNTED: Mapping[str, tuple[float, float, float]] = {
    "mpnn": (7.8, 17.1, 1.3),
    "vn": (8.9, 18.3, 1.4),
    "cross-attn": (100.0, 28.3, 28.3),
    "anchored": (100.0, 100.0, 100.0),
}

# tab:motifs: log-MAE and log-R2, IID and jittered.
MOTIFS: Mapping[str, Mapping[str, float]] = {
    "mean": {"iid/log_mae": 0.523, "iid/log_r2": 0.526, "jittered/log_mae": 0.812, "jittered/log_r2": -0.211},
    "sum": {"iid/log_mae": 0.140, "iid/log_r2": 0.966, "jittered/log_mae": 0.237, "jittered/log_r2": 0.892},
    "cross-attn": {"iid/log_mae": 0.415, "iid/log_r2": 0.701, "jittered/log_mae": 0.365, "jittered/log_r2": 0.690},
    "anchored": {"iid/log_mae": 0.012, "iid/log_r2": 1.000, "jittered/log_mae": 0.020, "jittered/log_r2": 0.999},
}

# The splits of app:motifs by the name they have in a record.
SPLITS: Mapping[str, str] = {
    "iid": "IID",
    "counts": "More motifs",
    "background": "Larger background",
    "mixture": "Other mixture",
    "replicated": "Exact copies",
    "jittered": "Jittered copies",
}

# tab:link-generation: F1 on a data set that is not public, so shown beside ours but not comparable like for like.
LINKS: Mapping[str, float] = {"cross-attn": 0.751, "anchored": 0.816}

# Mishayev et al., arXiv 2511.20406: accuracy in % by number of identifiers, at width 256 and 1024.
ORIGINAL_SIZES = (10, 50, 100, 150, 200)
ORIGINAL: Mapping[str, Mapping[int, tuple[int, ...]]] = {
    "gcn": {256: (94, 78, 44, 32, 24), 1024: (100, 90, 63, 46, 36)},
    "gin": {256: (100, 93, 53, 31, 24), 1024: (100, 94, 50, 12, 13)},
    "sage": {256: (100, 92, 13, 36, 26), 1024: (100, 95, 80, 13, 18)},
    "gat": {256: (98, 96, 92, 86, 68), 1024: (100, 97, 96, 94, 93)},
    "gcn+vn": {1024: (100, 94, 96, 80, 37)},
    "transformer": {1024: (100, 100, 100, 100, 100)},
}


@dataclass(frozen=True)
class References:
    """Accuracies on counted Two-Radius that need no memory at all, as fractions.

    `label` is a guess among n labels; `count` the best constant count; `both` the two guesses together; `blind` the
    most a model can reach that knows every base count but cannot see the scale (prop:replication).
    """

    label: float
    count: float
    both: float
    blind: float


def references(identifiers: int = 12, max_base: int = 4, scales: Sequence[int] = (1, 2, 3)) -> References:
    """The reference accuracies of one setting of the counted task.

    >>> chance = references()
    >>> [round(100 * value, 1) for value in (chance.label, chance.count, chance.both, chance.blind)]
    [8.3, 16.7, 1.4, 33.3]
    """
    products = [scale * base for scale in scales for base in range(1, max_base + 1)]
    count = max(products.count(value) for value in products) / len(products)
    return References(1 / identifiers, count, count / identifiers, 1 / len(scales))


def title(model: str) -> str:
    """The paper's name of a model, or the model's own where the paper has none; A+B is a backbone and a memory.

    >>> title("mpnn"), title("gcn+vn"), title("my-own")
    ('MPNN', 'GCN+VN', 'my-own')
    """
    local, plus, memory = model.partition("+")
    return f"{title(local)}+{short(memory)}" if plus else TITLES.get(model, model)


def short(model: str) -> str:
    """A model's name, short enough to stand beside a line.

    >>> short("anchored"), short("cross-attn"), short("gcn+anchored")
    ('Anchored', 'Cross-Attn', 'GCN+Anchored')
    """
    return title(model).replace(" Cross-Attn VN", "").replace("Cross-Attn VN", "Cross-Attn").removesuffix(" pool")


def rank(model: str) -> tuple[int, int, int, str]:
    """A sort key that puts models in the order of the paper's tables, and A+B behind B alone."""
    places = [ORDER.index(part) if part in ORDER else len(ORDER) for part in model.split("+")]
    return (places[-1], len(places), places[0], model)
