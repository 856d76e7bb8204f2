#!/usr/bin/env python3
"""Makes the embedded garments: the first few of each class of Fashion-MNIST, as IDX files.

    apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb unpacked
    python3 make.py unpacked/usr/share/datasets/fashion-mnist

The output depends on nothing but the input. Training garments come from the training file, test garments from the test file,
which have no garment in common.
"""

import gzip
import pathlib
import struct
import sys

CLASSES = 10
GARMENTS = {"train": ("train", 350), "test": ("t10k", 70)}


def read(path):
    data = gzip.decompress(path.read_bytes())
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    return shape, data[4 + 4 * rank :]


def write(path, shape, data):
    header = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    # No file name and no time in the header, so that the same garments give the same file.
    path.write_bytes(gzip.compress(header + data, compresslevel=9, mtime=0))


def main():
    source = pathlib.Path(sys.argv[1])
    target = pathlib.Path(__file__).parent
    for name, (prefix, each) in GARMENTS.items():
        (count, height, width), images = read(source / f"{prefix}-images-idx3-ubyte.gz")
        _, labels = read(source / f"{prefix}-labels-idx1-ubyte.gz")
        chosen = []
        for label in range(CLASSES):
            chosen += [record for record in range(count) if labels[record] == label][:each]
        pixels = height * width
        kept = b"".join(images[record * pixels : (record + 1) * pixels] for record in chosen)
        write(target / f"{name}-images.idx.gz", (len(chosen), height, width), kept)
        write(target / f"{name}-labels.idx.gz", (len(chosen),), bytes(labels[record] for record in chosen))


if __name__ == "__main__":
    main()
