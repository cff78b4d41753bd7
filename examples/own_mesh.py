"""A mesh file in, a prediction out for ParaView: ``python examples/own_mesh.py RUN PLATE.vtu OUT.vtu``.

RUN is a record of ``mooring run meshes``, or the folder of its checkpoints. PLATE has triangles and the point data
coefficient, source, kind and value. Without arguments a plate is made, written, read back and solved by a network that
has not been trained. Needs ``pip install 'mooring[meshes]'``.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from mooring.suite.look import trained
from mooring.suite.meshes import MeshExperiment
from mooring.suite.meshes.data import MeshDataset, collate, generate, read_mesh, write_mesh


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
    parser = argparse.ArgumentParser(description="Predict on a mesh; without arguments, on a generated plate.")
    parser.add_argument("record", nargs="?", type=Path, help="record of a trained run")
    parser.add_argument("plate", nargs="?", type=Path, help="mesh file")
    parser.add_argument("out", nargs="?", type=Path, help="file for the prediction")
    options = parser.parse_args()
    if options.out is not None:
        run = trained(options.record)
        main(run.experiment, run.net, options.plate, options.out)
    else:
        with TemporaryDirectory() as folder:
            untrained = MeshExperiment(MeshExperiment.presets["tiny"], "anchored", 0)
            write_mesh(Path(folder) / "plate.vtu", generate(untrained.config.plates, "test", 0, 0))
            main(untrained, untrained.build(), Path(folder) / "plate.vtu", Path(folder) / "solved.vtu")
