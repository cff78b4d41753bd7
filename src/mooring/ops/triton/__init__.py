"""Placeholder."""
from mooring.ops.triton.launch import sort_graphs
from mooring.ops.triton.read import read_backward, read_forward
from mooring.ops.triton.write import write_backward, write_forward
