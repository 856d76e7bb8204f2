"""Oxford-IIIT Pet as folders of square pictures, for the experiments (docs/experiments/fine-tuning.md).

    python3 bench/experiments/pets.py PETS OUT

PETS holds `images` and the lists `trainval.txt` and `test.txt` (name, class, species, breed), as its makers publish them (`annotations/`
is looked into as well). The middle square of each picture is brought to 160x160 pixels. `OUT/train` are the pictures of the first list;
of the second, every third is in `OUT/choose` and the others in `OUT/test`. Needs Pillow.
"""

import pathlib
import sys

from PIL import Image

SIDE = 160


def square(picture):
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return picture.convert("RGB").crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = map(pathlib.Path, sys.argv[1:])
    lists = source if (source / "test.txt").exists() else source / "annotations"
    counts = {}
    for name in ["trainval", "test"]:
        lines = [line.split() for line in (lists / f"{name}.txt").read_text().splitlines() if not line.startswith("#")]
        for number, (picture, label, *_) in enumerate(lines):
            part = "train" if name == "trainval" else "choose" if number % 3 == 0 else "test"
            folder = out / part / f"{int(label):02}"
            folder.mkdir(parents=True, exist_ok=True)
            square(Image.open(source / "images" / f"{picture}.jpg")).save(folder / f"{picture}.jpg", quality=92)
            counts[part] = counts.get(part, 0) + 1
    print(", ".join(f"{count} {part}" for part, count in counts.items()))


if __name__ == "__main__":
    main()
