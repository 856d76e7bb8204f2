"""What server and clients share: the plan, and how records are read."""

import gzip
from pathlib import Path

import numpy

#: The plan that is priced and carried out. Two clients are declared, and a round asks each of them by the toss of a coin.
PLAN = {
    "privacy": {"relation": "user", "noise_multiplier": 1.0, "max_grad_norm": 0.5, "delta": 1e-3},
    "sampling": {"records": 2, "batch": 1, "steps": 6},
    "model": {"name": "linear"},
}
SHAPE, CLASSES = [1, 28, 28], 10


def records(folder, name):
    """Pictures and labels in the format of MNIST."""

    def read(kind, start):
        data = gzip.decompress((Path(folder) / f"{name}-{kind}.idx.gz").read_bytes())
        return numpy.frombuffer(data, numpy.uint8, offset=start)

    labels = read("labels", 8)
    return read("images", 16).reshape(len(labels), *SHAPE[1:]), labels
