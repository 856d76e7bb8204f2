"""Oxford-IIIT Pet as folders of square pictures, for the experiments (docs/experiments/fine-tuning.md).

    python3 bench/experiments/pets.py PETS OUT

PETS holds `images` and the lists `trainval.txt` and `test.txt` (name, class, species, breed), as its makers publish them (`annotations/`
is looked into as well). The middle square of each picture is brought to 160x160 pixels. `OUT/train` are the pictures of the first list;
of the second, every third is in `OUT/choose` and the others in `OUT/test`. If PETS has `trimaps`, `OUT/animal` and `OUT/background` hold
masks of the first list's pictures in which the animal, or what is around it, is private; the border between them is private in both.
Needs Pillow.
"""

import pathlib
import sys

from PIL import Image

SIDE = 160


# What a trimap calls the animal, what is around it, and the border between them.
ANIMAL, BACKGROUND, BORDER = 1, 2, 3


def cut(picture, filter):
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return picture.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), filter)


def masks(trimap, size):
    """Black and white masks of a picture of this size, in which white is private."""
    trimap = cut(Image.open(trimap).resize(size, Image.Resampling.NEAREST), Image.Resampling.NEAREST)
    for name, private in [("animal", ANIMAL), ("background", BACKGROUND)]:
        yield name, trimap.point(lambda value, private=private: 255 if value in (private, BORDER) else 0, "L")


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
            image = Image.open(source / "images" / f"{picture}.jpg").convert("RGB")
            cut(image, Image.Resampling.LANCZOS).save(folder / f"{picture}.jpg", quality=92)
            trimap = source / "trimaps" / f"{picture}.png"
            for kind, mask in masks(trimap, image.size) if part == "train" and trimap.exists() else ():
                place = out / kind / folder.name
                place.mkdir(parents=True, exist_ok=True)
                mask.save(place / f"{picture}.png")
            counts[part] = counts.get(part, 0) + 1
    print(", ".join(f"{count} {part}" for part, count in counts.items()))


if __name__ == "__main__":
    main()
