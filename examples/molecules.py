"""Training of a model on molecules: ``python examples/molecules.py FILE``.

FILE is ``solubility.csv`` with a SMILES string and a number per line (needs rdkit), or a set of ``mooring data`` such
as ``data/ogbg_molesol.npz``. The last fifth of a CSV is held out; a data set has an official split. A CSV with a header
line and named columns is for the command ``mooring train``.
"""

import csv
import sys
from pathlib import Path

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_smiles
from torch_geometric.utils.smiles import e_map, x_map

from mooring import SlotVirtualNode
from mooring.models import ATOMS, BONDS, GNN, CategoryEncoder

CHANNELS, EPOCHS = 64, 30


def load(path):
    """Return training and test molecules, and the number of values of each atom and bond feature."""
    if path.suffix == ".npz":
        from mooring.suite.real.data.files import read_graphs

        graphs = read_graphs(path.read_bytes(), path.stem)
        return *([graphs[number] for number in graphs.splits[split]] for split in ("train", "test")), ATOMS, BONDS
    lines = csv.reader(path.read_text().splitlines())
    try:
        graphs = [from_smiles(smiles).update({"y": torch.tensor([[float(value)]])}) for smiles, value in lines]
    except ValueError as error:
        sys.exit(f"{path}: {error}. With a header line or more columns: mooring train {path} --target COLUMN")
    last = len(graphs) * 4 // 5
    return graphs[:last], graphs[last:], *([len(values) for values in table.values()] for table in (x_map, e_map))


def main(path):
    torch.manual_seed(0)
    train, test, atoms, bonds = load(path)
    y = torch.cat([graph.y for graph in train])
    atom, bond = (CategoryEncoder(counts, CHANNELS) for counts in (atoms, bonds))
    model = GNN(atom, CHANNELS, 1, layers=4, edge_encoder=bond, memory=SlotVirtualNode, readout="mean+sum", dropout=0.1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for batch in DataLoader(train, batch_size=32, shuffle=True):
            optimiser.zero_grad()
            out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch, ptr=batch.ptr)
            torch.nn.functional.mse_loss(out, (batch.y - y.mean()) / y.std()).backward()
            optimiser.step()
    batch = next(iter(DataLoader(test, batch_size=len(test))))
    with torch.no_grad():
        out = model.eval()(batch.x, batch.edge_index, batch.edge_attr, batch.batch) * y.std() + y.mean()
    error, constant = ((guess - batch.y).square().mean().sqrt() for guess in (out, y.mean()))
    print(f"{len(test)} held-out molecules: RMSE {error:.3f}, that of a constant {constant:.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
