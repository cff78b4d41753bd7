"""Which precisions does the module take, and what do they cost?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mooring.audit.adapters import Adapter
from mooring.audit.finding import Finding, first_line
from mooring.audit.graphs import GraphBatch, collate, random_graph
from mooring.audit.precision import default_dtype, relative_difference

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Rounding accumulated over a few layers stays well below; a cancellation in float32 does not.
EXPECTED_FLOAT32 = 1e-3


def dtypes(adapter: Adapter, seed: int, trials: int) -> Finding:
    """Cast module and input, with torch's default dtype left at float32 as users have it, and compare to float64."""
    generator = torch.Generator().manual_seed(seed)
    batches = [
        collate([random_graph(generator, nodes, adapter.channels) for nodes in (5, 11)]) for _ in range(min(trials, 4))
    ]
    with torch.no_grad():
        references = [adapter(batch) for batch in batches]
    errors: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        errors[name] = _error(adapter.cast(dtype), batches, references, autocast=False)
    errors["autocast bfloat16"] = _error(adapter.cast(torch.float32), batches, references, autocast=True)
    single = errors["float32"]
    broken = not isinstance(single, float) or single > EXPECTED_FLOAT32 or float("inf") in errors.values()
    return Finding(
        name="dtypes",
        # The reference's own precision is worth a word only where it is refused.
        verdict=" · ".join(f"{name} {_text(error)}" for name, error in errors.items() if error != 0.0),
        value=single if isinstance(single, float) else None,
        worst_case=max(
            (name for name in errors if isinstance(errors[name], float)), key=lambda name: errors[name], default="none"
        ),
        trials=len(batches) * len(errors),
        explanation=f"largest relative error against float64; float32 is expected within {EXPECTED_FLOAT32:g}, "
        "and no precision may give NaN; refusing one is allowed",
        broken=broken,
        details=errors,
    )


def _error(adapter: Adapter, batches: list[GraphBatch], references: list[Tensor], *, autocast: bool) -> float | str:
    worst = 0.0
    for batch, reference in zip(batches, references, strict=True):
        try:
            with (
                torch.no_grad(),
                default_dtype(torch.float32),
                torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast),
            ):
                x = batch.x.to(adapter.dtype)
                out = adapter.call(batch.with_features(x))
        except Exception as error:  # whatever is raised is the refusal being recorded
            return f"refused: {first_line(error)}"
        out = out[0] if isinstance(out, (tuple, list)) else out
        worst = max(worst, relative_difference(out.double().reshape(reference.shape), reference.double()))
    return worst


def _text(error: float | str) -> str:
    if isinstance(error, str):
        return "refused"
    return "NaN" if error == float("inf") else f"{error:.0e}"
