"""Two ranks train guarded; rank 0 reads the page about numerics of torch's debug server."""

import socket
import sys
import urllib.error
import urllib.request

import torch
import torch.distributed as dist
from numbers_network import Network, batches
from results import print_results
from torch.distributed.debug import start_debug_server, stop_debug_server
from torch.distributed.debug._debug_handlers import default_handlers

import sonde
from sonde.integrations.distributed_debug import NumericsHandler


def free_port():
    with socket.socket() as found:
        found.bind(("", 0))
        return found.getsockname()[1]


def main():
    dist.init_process_group("gloo")
    port = free_port()
    handler = NumericsHandler("sonde_steps", page="http://sonde.example:1234")
    start_debug_server(port=port, start_method="spawn", handlers=[*default_handlers(), handler])
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with sonde.guard("sonde_steps", keep=1):
        for batch in batches():
            optimizer.zero_grad()
            network(batch).backward()
            optimizer.step()
    dist.barrier()
    if dist.get_rank() == 0:
        for _ in range(600):
            try:
                page = urllib.request.urlopen(f"http://localhost:{port}/sonde", timeout=60).read()
                break
            except urllib.error.URLError:
                torch.ones(1 << 20).sort()  # until the server's process listens
        print_results(page=page.decode())
        sys.stdout.flush()
    dist.barrier()
    if dist.get_rank() == 0:
        stop_debug_server()
    dist.destroy_process_group()


if __name__ == "__main__":  # The server is a process that imports this file.
    main()
