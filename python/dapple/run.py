"""What a training run leaves in its folder, and what its model says.

>>> import tempfile
>>> import dapple
>>> plan = {
...     "data": {"format": "fashion-scenes", "size": "16x16"}, "model": {"name": "linear"},
...     "optimiser": {"learning_rate": 1.0}, "privacy": {"epsilon": 4.0, "delta": "1/n"},
...     "sampling": {"batch": 64, "steps": 3},
... }
>>> with tempfile.TemporaryDirectory() as folder:
...     run = dapple.train(plan, out=f"{folder}/first")
...     run.certificate.status, run.certificate.epsilon <= 4.0
('finished', True)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dapple import _dapple
from dapple.errors import PlanError, RunError

if TYPE_CHECKING:
    import numpy
    import pandas
    import torch

__all__ = ["Predicted", "Run", "predict"]

#: The types of numbers in a weights file, as numpy calls them.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


class Run:
    """The folder of a run, however far it came. Everything is read anew when it is asked for, and nothing in the folder changes.

    A run says no more than its ledger allows: `certificate` is computed from plan and ledger, and refuses a folder that contradicts them.
    """

    folder: Path

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(os.fspath(folder))
        if not (self.folder / "ledger.jsonl").exists():
            raise RunError(f"{self.folder}: no run in this folder", "a run folder holds plan.toml and ledger.jsonl")

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def plan(self) -> _dapple.Plan:
        """The plan of the run, with everything filled in."""
        return _dapple.plan_of_run(self.folder)

    @property
    def certificate(self) -> _dapple.RunCertificate:
        """What the run promised and what it spent, by its ledger."""
        return _dapple.certify(self.folder)

    @property
    def metrics(self) -> pandas.DataFrame | dict[str, list[Any]]:
        """The evaluations on the test set, in order: a data frame where pandas is installed, and a list for each column elsewhere."""
        lines = _lines(self.folder / "metrics.jsonl")
        names = list(dict.fromkeys(name for line in lines for name in line))
        columns = {name: [line.get(name) for line in lines] for name in names}
        try:
            import pandas
        except ImportError:
            return columns
        return pandas.DataFrame(columns)

    def weights(self) -> dict[str, numpy.ndarray]:
        """The weights of a finished run by their names, which are those of torchvision or timm. Needs numpy."""
        try:
            import numpy
        except ImportError as error:
            raise ImportError("Run.weights needs numpy: pip install numpy") from error
        path = self.folder / "model.safetensors"
        if not path.exists():
            raise RunError(f"{self.folder}: the run is not finished, so there are no weights yet", "go on with dapple.resume")
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        found = {}
        for name, entry in json.loads(data[8:begin]).items():
            if name == "__metadata__":
                continue
            if entry["dtype"] not in _TYPES:
                raise RunError(f"{path}: {name} has numbers of type {entry['dtype']}", "read it with the package safetensors")
            start, end = (begin + offset for offset in entry["data_offsets"])
            found[name] = numpy.frombuffer(data[start:end], _TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
        return found

    def load_into(self, module: torch.nn.Module) -> torch.nn.Module:
        """Copies the weights into a module whose parameters have the names of torchvision or timm, and returns it. Needs torch.

        Raises `PlanError` if the names or sizes differ; nothing has changed then.
        """
        import torch

        own = module.state_dict()
        # Batch norms count their batches, which says nothing about the weights.
        expected = {name for name in own if not name.endswith("num_batches_tracked")}
        found = self.weights()
        hint = "make the module with as many classes as the model has; its names are those of torchvision or timm"
        if expected != found.keys():
            name = min(expected ^ found.keys())
            where = "the module has no" if name in found else "the run has no"
            raise PlanError(f"{where} parameter {name}", hint)
        for name, values in found.items():
            if tuple(own[name].shape) != values.shape:
                raise PlanError(f"{name} has the shape {tuple(own[name].shape)} in the module and {values.shape} in the run", hint)
        module.load_state_dict({name: torch.from_numpy(values) for name, values in found.items()}, strict=False)
        return module

    def predict(self, images: Any) -> list[Predicted]:
        """What the model says about images: see `dapple.predict`."""
        return predict(self, images)

    def __repr__(self) -> str:
        return f"Run('{self.folder}')"

    def _repr_html_(self) -> str:
        return self.certificate._repr_html_()


class Predicted(NamedTuple):
    """What a model says about an image. A model of label maps says `labels` alone."""

    #: The likeliest class.
    label: str | None
    #: The probability of each class by its name.
    probabilities: dict[str, float] | None
    #: The likeliest class of each pixel, `[height, width]`: an array where numpy is installed, and rows of bytes elsewhere.
    labels: Any


def predict(run: Run | str | PathLike[str], images: Any) -> list[Predicted]:
    """Asks the model of a run about images: paths of pictures, or arrays of uint8, `[height, width, channels]` or `[height, width]`; one of
    them, or several. It reads the plan and the weights, never the data.
    """
    predictor = _dapple.Predictor(run)
    return [_predicted(predictor, image) for image in _several(images)]


def _several(images: Any) -> Iterable[Any]:
    if isinstance(images, (str, PathLike)):
        return [images]
    shape = getattr(images, "shape", None)
    return [images] if shape is not None and len(shape) < 4 else images


def _predicted(predictor: _dapple.Predictor, image: Any) -> Predicted:
    if isinstance(image, (str, PathLike)):
        answer = predictor.file(image)
    else:
        answer = predictor.pixels(*_pixels(image))
    if isinstance(answer, list):
        probabilities = dict(zip(predictor.classes, answer))
        return Predicted(max(probabilities, key=probabilities.__getitem__), probabilities, None)
    width, height, labels = answer
    try:
        import numpy
    except ImportError:
        return Predicted(None, None, [labels[row * width : (row + 1) * width] for row in range(height)])
    return Predicted(None, None, numpy.frombuffer(labels, numpy.uint8).reshape(height, width).copy())


def _pixels(image: Any) -> tuple[int, int, int, bytes]:
    try:
        view = memoryview(image)
    except TypeError:
        view = None
    if view is None or view.format not in ("B", "b", "<B") or view.ndim not in (2, 3):
        raise PlanError(
            f"a {type(image).__name__} is no image", "give paths, or arrays of uint8, [height, width, channels] or [height, width]"
        )
    height, width, channels = (*view.shape, 1)[:3]
    return width, height, channels, view.tobytes()


def _lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a file that a run may be writing."""
    lines = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines
