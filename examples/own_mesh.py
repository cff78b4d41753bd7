"""A mesh file in, a prediction out for ParaView: ``python examples/own_mesh.py RUN PLATE.vtu OUT.vtu``.

RUN is a record of ``mooring run meshes``, or the folder of its checkpoints. PLATE has triangles and the point data
coefficient, source, kind and value. Without arguments a plate is made, written, read back and solved by a network that
has not been trained. Needs ``pip install 'mooring[meshes]'``.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from mooring.suite.look import trained
from mooring.suite.meshes import MeshExperiment
from mooring.suite.meshes.data import MeshDataset, collate, generate
from mooring.suite.meshes.files import read_mesh, write_mesh


def predict(net, mesh, spacing):
    batch = collate(MeshDataset.pack([mesh]), np.array([0]), spacing)
    with torch.no_grad():
        return net.eval()(batch.x, batch.edge_index, batch.edge_attr, batch.batch, ptr=batch.ptr).numpy()


def main(experiment, net, plate, out):
    mesh = read_mesh(plate)
    prediction = predict(net, mesh, experiment.config.plates.spacing)
    write_mesh(out, mesh, {"prediction": prediction, "difference": prediction - mesh.solution})
    print(f"{plate.name}: {len(mesh.position)} nodes, {mesh.cells.shape[1]} triangles; prediction in {out.name}")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        run = trained(Path(sys.argv[1]))
        main(run.experiment, run.net, Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        with TemporaryDirectory() as folder:
            untrained = MeshExperiment(MeshExperiment.presets["tiny"], "anchored", 0)
            write_mesh(Path(folder) / "plate.vtu", generate(untrained.config.plates, "test", 0, 0))
            main(untrained, untrained.build(), Path(folder) / "plate.vtu", Path(folder) / "solved.vtu")
