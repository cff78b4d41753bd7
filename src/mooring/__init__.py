"""Global memory for graph neural networks: virtual nodes that can be addressed and that can count."""

__version__ = "0.1.0"
