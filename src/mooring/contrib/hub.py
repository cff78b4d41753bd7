"""Hugging Face's hub: ``save_pretrained`` and ``from_pretrained`` for :class:`mooring.models.GNN`.

A folder holds ``config.json`` and ``model.safetensors``; loading it runs no code of its own.
"""

from __future__ import annotations

from typing import Any

from huggingface_hub import PyTorchModelHubMixin

from mooring.models import GNN
from mooring.models.encoders import plain_arguments


class PretrainedGNN(GNN, PyTorchModelHubMixin, library_name="mooring"):  # type: ignore[call-arg]
    """A :class:`~mooring.models.GNN` that is saved to a folder or to the hub, and built again from there.

    Args:
        arguments: of the network, as plain values, see :func:`mooring.models.encoders.plain_arguments`.

    >>> from tempfile import TemporaryDirectory
    >>> model = PretrainedGNN(encoder=5, channels=16, out_channels=1, memory={"slots": 4})
    >>> with TemporaryDirectory() as folder:
    ...     model.save_pretrained(folder)
    ...     again = PretrainedGNN.from_pretrained(folder)
    Loading weights from local directory
    >>> type(again).__name__
    'PretrainedGNN'
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**plain_arguments(**arguments))

    @classmethod
    def _load_as_safetensor(cls, model: Any, model_file: str, map_location: str, strict: bool) -> Any:
        # Weights that do not fit are an error: the mixin would leave them out.
        return super()._load_as_safetensor(model, model_file, map_location, strict=True)

    @classmethod
    def _load_as_pickle(cls, model: Any, model_file: str, map_location: str, strict: bool) -> Any:
        raise ValueError(
            f"{cls.__name__}: the model has no model.safetensors, and pickled weights are not read. Save it again with "
            "save_pretrained."
        )
