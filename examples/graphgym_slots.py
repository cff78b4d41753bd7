"""PyG's GraphGym with a memory after every layer: a configuration, a model, a short training.

The target is the number of nodes with a mark, among nodes of which few are connected.

    pip install 'mooring[graphgym]' && python examples/graphgym_slots.py
"""

import torch
from torch_geometric.data import Data
from torch_geometric.graphgym.config import cfg, set_cfg
from torch_geometric.graphgym.loss import compute_loss
from torch_geometric.graphgym.model_builder import create_model
from torch_geometric.loader import DataLoader

import mooring.contrib.graphgym  # noqa: F401  registers the network and the config group

CONFIG = """
dataset: {task: graph, task_type: regression}
model: {type: TYPE, loss_fun: mse, graph_pooling: mean}
gnn: {head: graph, layer_type: ginconv, layers_pre_mp: 1, layers_mp: 2, dim_inner: 32}
mooring: {network: gnn, slots: 4, heads: 4, competition: true, init_std: 0.5}
"""


def graphs(count: int) -> list[Data]:
    made = []
    for _ in range(count):
        nodes = int(torch.randint(4, 16, ()))
        marks = (torch.rand(nodes) < 0.5).long()
        edges = torch.randint(nodes, (2, nodes))
        made.append(Data(x=torch.eye(2)[marks], edge_index=edges, y=marks.sum().float().view(1) / 4))
    return made


def error(network: str) -> float:
    set_cfg(cfg)
    cfg.merge_from_other_cfg(cfg.load_cfg(CONFIG.replace("TYPE", network)))
    torch.manual_seed(0)
    train, test = graphs(256), graphs(64)
    model = create_model(to_device=False, dim_in=2, dim_out=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=60)
    for _ in range(60):
        for batch in DataLoader(train, batch_size=64, shuffle=True):
            loss, _ = compute_loss(*model(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        decay.step()
    model.eval().requires_grad_(False)
    predicted, true = model(next(iter(DataLoader(test, batch_size=64))))
    return 4 * (predicted.squeeze() - true).abs().mean().item()


if __name__ == "__main__":
    print(f"gnn      mean absolute error {error('gnn'):.2f} marks")
    print(f"mooring  mean absolute error {error('mooring'):.2f} marks")
