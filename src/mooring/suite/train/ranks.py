"""The processes that train one run together, all on one machine; each is a rank."""

from __future__ import annotations

import os
import signal

from lightning.fabric.plugins.environments.lightning import LightningEnvironment, find_free_network_port
from lightning.pytorch.strategies import DDPStrategy

from mooring.suite.files import end_with_parent


class OneMachine(LightningEnvironment):
    """The environment of the ranks of one run, independent of variables of Slurm, torchrun or an earlier run."""

    def __init__(self) -> None:
        super().__init__()
        self.launcher = os.getpid()
        self.port = 0

    @property
    def creates_processes_externally(self) -> bool:
        return False

    @property
    def main_address(self) -> str:
        return "127.0.0.1"

    @property
    def main_port(self) -> int:
        # Read by the launcher before the ranks, which are given a copy of this object.
        self.port = self.port or find_free_network_port()
        return self.port

    def node_rank(self) -> int:
        return 0

    def local_rank(self) -> int:
        # In the launcher the variable was not set by Lightning.
        return 0 if os.getpid() == self.launcher else super().local_rank()


def strategy(devices: int, accelerator: str) -> DDPStrategy | str:
    """Return the strategy of Lightning for a number of devices."""
    if devices == 1:
        return "auto"
    # Spawned, because ranks of a fork server would share the memory of the weights and each apply its step to it.
    backend = "nccl" if accelerator == "cuda" else "gloo"
    return DDPStrategy(process_group_backend=backend, start_method="spawn", find_unused_parameters=True)


def end_with_launcher() -> None:
    """End this rank when the process that launched it is killed, or it would go on training beside the resumed run."""
    end_with_parent()
    # Lightning's handler would wait for the other ranks, which received no signal.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
