"""Plates with holes, problems on them, and their solutions."""

from mooring.suite.meshes.data.dataset import (
    MeshBatch,
    MeshDataset,
    cached,
    collate,
    generate_many,
    num_features,
    scales,
)
from mooring.suite.meshes.data.mesh import (
    FIXED,
    FREE,
    INTERIOR,
    KINDS,
    LOADED,
    Mesh,
    MeshError,
    check_mesh,
    read_mesh,
    write_mesh,
)
from mooring.suite.meshes.data.plate import BEYOND, SPLITS, Physics, PlateSettings
from mooring.suite.meshes.data.problems import generate

__all__ = [
    "BEYOND", "FIXED", "FREE", "INTERIOR", "KINDS", "LOADED", "SPLITS", "Mesh", "MeshBatch", "MeshDataset", "MeshError",
    "Physics", "PlateSettings", "cached", "check_mesh", "collate", "generate", "generate_many", "num_features",
    "read_mesh", "scales", "write_mesh",
]  # fmt: skip
