# Made by python/stubs from the compiled module; do not edit.
"""
The compiled part of the package `dapple`; import that instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Literal, SupportsFloat, SupportsIndex, TypedDict, final, type_check_only

from typing_extensions import Buffer, Unpack

from dapple.run import Run
from dapple.table import Table

from _typeshed import SupportsGetItem

@type_check_only
class PlanKeywords(TypedDict, total=False):
    """The keyword arguments that describe a plan."""

    relation: Literal["add-remove", "replace", "patch", "masked", "user"] | None
    """the neighbouring relation, what may differ (default: patch if a region is given, else add-remove)"""
    delta: float | str | None
    """the failure probability, a number between 0 and 1, or 1/n"""
    epsilon: float | None
    """the epsilon to reach, a positive number"""
    noise_multiplier: float | None
    """the noise's standard deviation in units of the clip norm"""
    max_grad_norm: float | None
    """the clip norm, a positive number (default: 1)"""
    clip_quantile: float | None
    """the share of gradients within the clip norm, which then follows it from step to step (default: a fixed clip norm)"""
    clip_rate: float | None
    """how fast the clip norm follows (default: 0.2)"""
    count_noise: float | None
    """the noise's standard deviation on the number of gradients within the clip norm (default: batch / 20, at least the noise multiplier)"""
    records_per_clip: int | None
    """the number of records averaged and clipped together, a microbatch (default: 1)"""
    accountant: Literal["pld", "rdp"] | None
    """the accountant that answers (default: pld)"""
    patch: int | tuple[int, int] | str | None
    """the private rectangle in whole pixels, WIDTHxHEIGHT"""
    circle: float | None
    """the radius of the private disc in pixels"""
    region_mask: str | PathLike[str] | Buffer | Sequence[Buffer] | None
    """the name of a picture in which white is private"""
    travel: int | tuple[int, int] | str | None
    """how many columns and rows the region moves within a clip at most, PX or XxY (default: 0, a region that stays)"""
    duration: int | None
    """how many frames of a clip, one after the other, show the region at most, of those that reach the pipeline (default: all of them)"""
    placement: Literal["anywhere", "annotated"] | None
    """where the region may lie (default: anywhere)"""
    image: int | tuple[int, int] | str | None
    """the size of an image in whole pixels, WIDTHxHEIGHT"""
    sizes: str | None
    """the smallest and the largest size of an image, where images have several (default: all images have one size)"""
    operations: Sequence[str] | None
    """a list of operations before padding and crop"""
    pad: int | tuple[int, int] | str | None
    """the pixels added on each side, PX or PXxPY (default: 0)"""
    pad_mode: Literal["zero", "reflect", "replicate", "wrap"] | None
    """what the padding shows (default: zero)"""
    crop: int | tuple[int, int] | str | None
    """the size of a crop in whole pixels, WIDTHxHEIGHT (default: no crop)"""
    crop_scale: tuple[float, float] | str | None
    """the share of the area a random resized crop takes (default: 0.08:1 if --crop-ratio is given)"""
    crop_ratio: tuple[float, float] | str | None
    """the width of a random resized crop over its height (default: 3/4 to 4/3 if --crop-scale is given)"""
    frames: int | None
    """how many frames of a clip reach the pipeline, where views show a window of them (default: those of the data)"""
    window: int | None
    """how many frames of a clip a view shows, one after the other, from a random one on (default: all of them)"""
    pixel_noise: float | None
    """the standard deviation of Gaussian noise on the values of each view, of values from 0 to 1 (default: none)"""
    views: int | None
    """the number of views of a record averaged before clipping (default: 1)"""
    self_mix: int | None
    """the number of mixtures of two of a record's own views and synthetic images (default: 0)"""
    synthetic: int | None
    """the number of synthetic images beside each record, from a model not trained on the data set (default: 0)"""
    pool: str | None
    """the folder of synthetic images, none of which was made from the private data"""
    pool_class: str | None
    """the class of all synthetic images, if the pool has no folder for each class (default: the name of each image's folder)"""
    allow: Literal["pure-synthetic"] | None
    """what would be refused otherwise (default: nothing)"""
    sampling: Literal["poisson", "without-replacement", "balanced"] | None
    """how a step draws its records (default: poisson)"""
    batch: int | None
    """the number of records a step takes, a whole number"""
    records: int | None
    """the number of records in the data set, a whole number"""
    max_batch: int | None
    """the most records a step of poisson sampling takes; of more, a uniform subset is kept, and the price counts it (default: no limit)"""
    per_record: int | None
    """the number of steps of an epoch each record joins, for balanced sampling (default: 1 for balanced sampling)"""
    epochs: int | None
    """the number of passes over the data set, a whole number"""
    steps: int | None
    """the number of steps of all epochs, a whole number (default: epochs * ceil(records / batch), for balanced sampling times per-record)"""
    bands: int | str | None
    """the number of steps over which noise cancels, a whole number, or auto (default: 1, noise of its own for each step)"""
    coefficients: Literal["optimised", "square-root"] | None
    """how the noise cancels: as in the square root of sums, or as the noise in the iterates is least (default: optimised)"""
    iterates: Literal["mean", "last"] | None
    """which iterates optimised coefficients and auto look at: the mean over all, or the last (default: mean)"""
    submodels: int | None
    """the number of disjoint submodels, of which each record updates one a step"""
    mixture: Sequence[tuple[int, float]] | None
    """a list of [submodels, probability], partitions of which each record draws one a step"""
    blocks: Sequence[str] | None
    """the residual blocks that are dealt out to the submodels, or ranges of them"""
    predict: Literal["all", "ensemble"] | None
    """what answers after training: the model with all its blocks, or the mean of its submodels' probabilities (default: all)"""
    split_fraction: float | None
    """the share of the trained parameters that is split; sets both clip norms (default: 1 for a split model)"""
    dropout: float | None
    """the dropout rate that splits the model, 0.5, at which all its dropout layers train"""
    split_norm: float | None
    """the clip norm of the split part, in clip norms (default: 1 for a split model)"""
    nonsplit_norm: float | None
    """the clip norm of the part that is not split, in clip norms (default: 0 for a split model)"""
    masked_content: Literal["substitute", "remove"] | None
    """how the private tokens of neighbours differ: other content, or none (default: substitute for the masked relation)"""
    public_gradient: Literal["decoupled", "coupled-clipped", "coupled"] | None
    """where the gradient of public tokens comes from (default: decoupled for the masked relation)"""
    public_clip: float | None
    """the clip norm of public gradients in private clip norms, for coupled-clipped"""
    masked_pass: Literal["tokens", "pooled", "blank"] | None
    """how a model sees the private, or the public, part of an image alone (default: tokens for vision transformers and MViT, pooled for models that take one mean over their features at last, blank for others)"""
    public_weight: float | None
    """the weight of public gradients beside private ones, not for coupled-clipped (default: 1)"""

__all__ = ["__version__", "Calibration", "Certificate", "FederatedCertificate", "FederatedRun", "Inclusion", "LocalTrainer", "Plan", "Pld", "Predictor", "Rdp", "RunCertificate", "Sampler", "TrainingEvent", "account", "calibrate", "certify", "inclusion", "inclusion_probability", "keywords", "plan_of_run", "profile", "resume", "sweep", "train"]

__version__: Final[str]
"""
The version of the package.
"""

@final
class Calibration:
    """
    A plan that was solved for one unknown: the value, the plan with it, and its certificate, whose epsilon is at most the target.
    """
    def __repr__(self, /) -> str: ...
    def _repr_html_(self, /) -> str: ...
    @property
    def certificate(self, /) -> Certificate:
        """
        The certificate of that plan.
        """
    @property
    def epsilon(self, /) -> float:
        """
        The epsilon of that plan, at most the target.
        """
    @property
    def name(self, /) -> str:
        """
        The keyword of the value that was solved for.
        """
    @property
    def plan(self, /) -> Plan:
        """
        The plan with the value found.
        """
    @property
    def size(self, /) -> tuple[int, int] | None:
        """
        Width and height, for a crop or a patch.
        """
    def to_json(self, /) -> str:
        """
        The certificate and what was solved for, as `dapple calibrate --json` prints them.
        """
    @property
    def value(self, /) -> int | float:
        """
        The value found; for a crop or a patch its width.
        """

@final
class Certificate:
    """
    A priced plan: the run is (`epsilon`, `delta`)-private under `relation`, provided every sentence of `assumptions` holds.

    >>> import dapple
    >>> dapple.account(image=(1000, 1000), crop=(100, 100), patch=(10, 10), sampling="poisson", batch=100, records=3000,
    ...                epochs=100, noise_multiplier=1.0, delta=1e-5)
    Certificate(epsilon=0.1919, bracket=(0.1917, 0.1919), relation='patch', delta=1e-5, sampling='poisson', steps=3000, noise_multiplier=1.0)
    """
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    def __str__(self, /) -> str: ...
    def _repr_html_(self, /) -> str: ...
    @property
    def accountant(self, /) -> str:
        """
        Which accountant answered.
        """
    @property
    def assumptions(self, /) -> list[str]:
        """
        What must hold outside this program.
        """
    @property
    def batch(self, /) -> int:
        """
        The expected number of records of a step.
        """
    @property
    def bracket(self, /) -> tuple[float | None, float]:
        """
        The certified bracket of the exact epsilon. Its lower end is `None` where the accountant only bounds from above.
        """
    @property
    def delta(self, /) -> float:
        """
        The failure probability.
        """
    @property
    def effective_rate(self, /) -> float:
        """
        The probability that a step sees what is protected.
        """
    @property
    def epsilon(self, /) -> float:
        """
        The guarantee: never below the exact epsilon of the mechanism.
        """
    @property
    def inclusion_probability(self, /) -> float:
        """
        The probability that a sampled record shows what is protected.
        """
    @property
    def noise_multiplier(self, /) -> float:
        """
        Standard deviation of the noise on the sum of clipped gradients, in clip norms.
        """
    @property
    def plan_hash(self, /) -> str:
        """
        SHA-256 of everything in the plan that may change the guarantee.
        """
    @property
    def protects(self, /) -> str:
        """
        What is protected, as a sentence.
        """
    @property
    def records(self, /) -> int:
        """
        Records in the data set.
        """
    @property
    def relation(self, /) -> str:
        """
        The neighbouring relation: what may differ.
        """
    @property
    def sample_rate(self, /) -> float:
        """
        The probability that a step sees a given record.
        """
    @property
    def sampling(self, /) -> str:
        """
        How a step draws its records.
        """
    @property
    def sensitivity(self, /) -> float:
        """
        How far the sum of clipped gradients moves between neighbours, in clip norms.
        """
    def statement(self, /) -> str:
        """
        A statement for a reviewer, in Markdown: what the adversary sees, what is protected, what is assumed, and what a test can reach.
        """
    @property
    def steps(self, /) -> int:
        """
        Steps of the whole run.
        """
    @property
    def theorem(self, /) -> str:
        """
        The theorem behind the number.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The fields of the JSON form.
        """
    def to_json(self, /) -> str:
        """
        The certificate as JSON, as `dapple account --json` prints it.
        """
    @property
    def trade_off(self, /) -> list[tuple[float, float]] | None:
        """
        What tests between neighbouring data sets can reach (f-DP): pairs of a share of false alarms and the least share of misses. `None`
        where only epsilon is bounded, and in the certificate of a run, whose plan has the curve: `dapple.plan_of_run(folder).account()`.
        `plan.pld().trade_off` tells it at any share.
        """

@final
class FederatedCertificate:
    """
    What a federated run promised and what it spent, at the level of clients. `spent` covers every model that the run released, by its ledger.
    """
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    def _repr_html_(self, /) -> str: ...
    @property
    def epsilon(self, /) -> float:
        """
        An upper bound on epsilon for every model that the run released; 0 before the first round.
        """
    @staticmethod
    def of(folder: str | PathLike[str], /) -> FederatedCertificate:
        """
        The certificate of the run in a folder, from its plan and its ledger.
        """
    @property
    def planned(self, /) -> Certificate:
        """
        The price of all rounds of the plan.
        """
    @property
    def rounds_spent(self, /) -> int:
        """
        Rounds that count as taken.
        """
    @property
    def spent(self, /) -> Certificate | None:
        """
        The price of the rounds that count as taken; `None` before the first.
        """
    @property
    def status(self, /) -> str:
        """
        Whether the run goes on: `running`, `stopped` or `finished`.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The fields of the JSON form.
        """
    def to_json(self, /) -> str:
        """
        The certificate as JSON, as in `certificate.json`.
        """
    @property
    def trust(self, /) -> str:
        """
        Whom the clients trust, in words.
        """
    @property
    def warnings(self, /) -> list[str]:
        """
        What a reader must know before relying on the certificate.
        """

@final
class FederatedRun:
    """
    The server's part of a federated run: its ledger, its coins, its clipping and its noise. `dapple.flower.Strategy` is what to use.
    """
    def add(self, client: SupportsIndex, update: bytes, /) -> bool:
        """
        Clips and adds what a client sends. The answer is false if it was of no use, and added zero.
        """
    @property
    def arrays(self, /) -> list[tuple[str, list[int]]]:
        """
        Name and shape of each array of the model, in order.
        """
    def certificate(self, /) -> FederatedCertificate:
        """
        The certificate of the rounds that count as taken.
        """
    @property
    def clients(self, /) -> int:
        """
        Clients that the plan declares.
        """
    def finish_round(self, /) -> bytes:
        """
        Closes the round: the noisy sum divided by the expected number of clients.
        """
    def keep(self, model: bytes, /) -> None:
        """
        Keeps the model that follows from the rounds so far.
        """
    def promise(self, /, online: SupportsIndex) -> list[int]:
        """
        Promises the next round on disk, and then draws its clients, of which `online` are there.
        """
    @staticmethod
    def resume(folder: str | PathLike[str], /) -> FederatedRun:
        """
        Goes on with a run that was stopped or killed. Rounds that were promised stay spent.
        """
    @property
    def rounds(self, /) -> int:
        """
        Rounds of the plan.
        """
    @property
    def rounds_spent(self, /) -> int:
        """
        Rounds that count as taken.
        """
    @staticmethod
    def start(plan: Plan | Mapping[str, Any] | str | PathLike[str], folder: str | PathLike[str], arrays: list[tuple[str, list[int]]], first: bytes, /) -> FederatedRun:
        """
        Begins a run in an empty or new folder, for a model of these arrays and values.
        """
    def stop(self, /) -> None:
        """
        Writes down that the run stops here.
        """
    @property
    def values(self, /) -> bytes:
        """
        The values of the model after the last round that was kept, four bytes each.
        """

@final
class Inclusion:
    """
    How likely a crop is to see the private region at the region's worst place.
    """
    def __repr__(self, /) -> str: ...
    @property
    def crop_origins(self, /) -> int | None:
        """
        How many places a crop of fixed size has.
        """
    def heatmap(self, /) -> memoryview:
        """
        One view's probability for each place of the region's centre, `[height, width]` in single precision. `numpy.asarray` takes the map
        without a copy.
        """
    @property
    def hits(self, /) -> int | None:
        """
        From how many of these places the crop sees the region.
        """
    @property
    def probability(self, /) -> float:
        """
        The probability that any of the views sees the region. It is never too small.
        """
    @property
    def probability_of_one_view(self, /) -> float:
        """
        The probability that one view sees the region.
        """
    @property
    def views(self, /) -> int:
        """
        Views of a record.
        """
    @property
    def worst_origin(self, /) -> tuple[int, int] | None:
        """
        Where the region's bounding box starts at its worst place: x, y.
        """

@final
class LocalTrainer:
    """
    A model of the zoo that a client trains with plain gradient descent. It knows nothing of privacy: the server clips and adds the noise.

    `plan` names the model in its section `model`; `shape` is `[channels, height, width]`. Arrays of numbers are bytes, four for each value.
    """
    def __new__(cls, /, plan: Plan | Mapping[str, Any] | str | PathLike[str], shape: SupportsGetItem[int, SupportsIndex], classes: SupportsIndex, *, threads: SupportsIndex = 1) -> LocalTrainer: ...
    def accuracy(self, /, inputs: bytes, labels: SupportsGetItem[int, SupportsIndex]) -> float:
        """
        The share of records whose likeliest class is their own.
        """
    @property
    def arrays(self, /) -> list[tuple[str, list[int]]]:
        """
        Name and shape of each array that trains, in order.
        """
    def set(self, model: bytes, /) -> None:
        """
        Takes these values.
        """
    def train(self, /, inputs: bytes, labels: SupportsGetItem[int, SupportsIndex], *, steps: SupportsIndex, batch: SupportsIndex, learning_rate: SupportsFloat | SupportsIndex) -> None:
        """
        Takes steps of gradient descent on records that are drawn anew for each.
        """
    @property
    def values(self, /) -> bytes:
        """
        The values that train: the first weights, or those that were set or trained last.
        """

@final
class Plan:
    """
    A checked plan: what is protected, how records are drawn, what happens to an image, how much noise there is, and for how long. It is
    what is priced, and what the samplers and crops of `dapple.torch` carry out.

    Keyword arguments are the flags of the command line with underscores; `dapple.keywords()` lists them. `plan` is another plan, a
    mapping or the path of a TOML file, over which the keywords are laid; `set` lays dotted keys over both.

    >>> import dapple
    >>> plan = dapple.Plan(batch=100, records=3000, epochs=100, noise_multiplier=1.0, delta=1e-5)
    >>> plan.steps, plan.relation
    (3000, 'add-remove')
    >>> plan.replace(steps=10).steps
    10
    >>> dapple.Plan.from_toml(plan.to_toml()) == plan
    True
    """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __new__(cls, plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None, /, *, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> Plan: ...
    def __reduce__(self, /) -> tuple[Any, ...]:
        """
        A plan is pickled as its text and the pixels of its masks.
        """
    def __repr__(self, /) -> str: ...
    def _repr_html_(self, /) -> str: ...
    @staticmethod
    def _restore(text: str, masks: list[tuple[tuple[int, int], bytes]], base: str | PathLike[str]) -> Plan: ...
    def account(self, /, *, precision: SupportsFloat | SupportsIndex = 0.001) -> Certificate:
        """
        Prices the plan, as `dapple.account` does.
        """
    @property
    def batch(self, /) -> int:
        """
        The expected number of records of a step, by which the noisy sum is divided.
        """
    @property
    def crop(self, /) -> tuple[int, int] | None:
        """
        Width and height of a crop of fixed size; `None` without one.
        """
    @property
    def delta(self, /) -> float:
        """
        The failure probability.
        """
    @property
    def effective_rate(self, /) -> float:
        """
        The probability that a step sees what is protected.
        """
    @property
    def epoch_steps(self, /) -> int:
        """
        Steps of one pass over the data set, or of one allocation in balanced sampling.
        """
    @staticmethod
    def from_dict(mapping: Mapping[str, Any]) -> Plan:
        """
        The plan of a mapping: sections as in a TOML file, dotted keys, or keywords.

        >>> import dapple
        >>> sampling = {"batch": 100, "records": 3000, "epochs": 100}
        >>> dapple.Plan.from_dict({"sampling": sampling, "noise_multiplier": 1.0, "privacy.delta": 1/n}).delta
        0.0003333333333333333
        """
    @staticmethod
    def from_toml(text: str) -> Plan:
        """
        The plan of a TOML text.
        """
    @property
    def hash(self, /) -> str:
        """
        SHA-256 of everything that may change the guarantee.
        """
    @property
    def image(self, /) -> tuple[int, int] | None:
        """
        Width and height of the original image, where given.
        """
    @property
    def inclusion_probability(self, /) -> float:
        """
        The probability that a sampled record shows what is protected.
        """
    @property
    def max_grad_norm(self, /) -> float | None:
        """
        The clip norm, where given.
        """
    @property
    def noise_multiplier(self, /) -> float:
        """
        Standard deviation of the noise on the sum of clipped gradients, in clip norms.
        """
    @property
    def operations(self, /) -> list[str]:
        """
        Operations on the whole image before padding and crop, as they are written in a plan.
        """
    @property
    def pad(self, /) -> tuple[int, int]:
        """
        Pixels added on each side right before the crop, along x and y.
        """
    @property
    def pad_mode(self, /) -> str:
        """
        What the padding shows.
        """
    def pld(self, /) -> Pld:
        """
        The privacy-loss distribution of the whole run.
        """
    @property
    def records(self, /) -> int:
        """
        Records in the data set.
        """
    @property
    def relation(self, /) -> str:
        """
        The neighbouring relation: what may differ.
        """
    def replace(self, /, *, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> Plan:
        """
        This plan with some values changed.
        """
    @property
    def sample_rate(self, /) -> float:
        """
        The probability that a step sees a given record.
        """
    @property
    def sampling(self, /) -> str:
        """
        How a step draws its records.
        """
    @property
    def sensitivity(self, /) -> float:
        """
        How far the sum of clipped gradients moves between neighbours, in clip norms.
        """
    @property
    def steps(self, /) -> int:
        """
        Steps of the whole run.
        """
    @property
    def target_epsilon(self, /) -> float | None:
        """
        The epsilon to reach, where given.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The plan as a dictionary of sections.
        """
    def to_toml(self, /) -> str:
        """
        The plan as TOML.
        """
    @property
    def views(self, /) -> int:
        """
        Views of a record, whose gradients are averaged before clipping.
        """

@final
class Pld:
    """
    The privacy-loss distribution of a mechanism. It is made from one step, composed, and asked for epsilon, delta or a whole profile.
    Every answer is an upper bound that counts everything: discretisation, truncation and rounding.

    >>> import dapple
    >>> step = dapple.Pld.poisson_gaussian(sample_rate=0.01, noise_multiplier=1.0)
    >>> run = step.self_compose(1000).compose(dapple.Pld.laplace(0.1))
    >>> lower, upper = run.epsilon_bracket(1e-5)
    >>> lower <= upper == run.epsilon(1e-5)
    True
    """
    def __repr__(self, /) -> str: ...
    def _repr_html_(self, /) -> str:
        """
        A table of epsilon at usual deltas.
        """
    def compose(self, /, other: Pld) -> Pld:
        """
        Both mechanisms on the same data. The second may be chosen after seeing what the first gave.
        """
    def delta(self, /, epsilon: SupportsFloat | SupportsIndex, *, precision: SupportsFloat | SupportsIndex = 0.001) -> float:
        """
        The least delta for which the mechanism is (`epsilon`, delta)-private, never too small.
        """
    def delta_bracket(self, /, epsilon: SupportsFloat | SupportsIndex, *, precision: SupportsFloat | SupportsIndex = 0.001) -> tuple[float, float]:
        """
        A lower and an upper bound on the exact delta at `epsilon`.
        """
    def epsilon(self, /, delta: SupportsFloat | SupportsIndex, *, precision: SupportsFloat | SupportsIndex = 0.001) -> float:
        """
        The least epsilon for which the mechanism is (epsilon, `delta`)-private, never too small. `delta` may be anything from 1e-15 to
        below 1, and also 0 for mechanisms whose losses are bounded.
        """
    def epsilon_bracket(self, /, delta: SupportsFloat | SupportsIndex, *, precision: SupportsFloat | SupportsIndex = 0.001) -> tuple[float, float]:
        """
        A lower and an upper bound on the exact epsilon at `delta`.
        """
    @staticmethod
    def fixed_size_gaussian(sample_rate: SupportsFloat | SupportsIndex, noise_multiplier: SupportsFloat | SupportsIndex) -> Pld:
        """
        One step of DP-SGD on a sample of fixed size that is drawn without replacement, where records are substituted.
        """
    @staticmethod
    def from_losses(losses: Sequence[tuple[float, float]], infinite: SupportsFloat | SupportsIndex = 0.0, *, addition: Sequence[tuple[float, float]] | None = None, addition_infinite: SupportsFloat | SupportsIndex = 0.0) -> Pld:
        """
        A mechanism given by its losses: pairs of a loss and its probability, in increasing order of the losses, and the probability of an
        infinite loss. `addition` and `addition_infinite` are those of adding a record, where they differ from those of removing one.
        """
    @staticmethod
    def gaussian(noise_multiplier: SupportsFloat | SupportsIndex, *, sensitivity: SupportsFloat | SupportsIndex = 1.0) -> Pld:
        """
        The Gaussian mechanism: two normals whose means differ by `sensitivity` at a standard deviation of `noise_multiplier`.
        """
    @staticmethod
    def gaussian_mixture(noise_multiplier: SupportsFloat | SupportsIndex, sensitivities: SupportsGetItem[int, SupportsFloat | SupportsIndex], probabilities: SupportsGetItem[int, SupportsFloat | SupportsIndex]) -> Pld:
        """
        The Gaussian mechanism whose sensitivity is random: one of `sensitivities`, each with its probability. Records are added or
        removed.
        """
    @staticmethod
    def identity() -> Pld:
        """
        The mechanism that releases nothing.
        """
    @property
    def is_symmetric(self, /) -> bool:
        """
        Whether one pair of distributions bounds both directions of the relation.
        """
    @staticmethod
    def laplace(epsilon: SupportsFloat | SupportsIndex) -> Pld:
        """
        The Laplace mechanism with pure privacy parameter `epsilon`.
        """
    @staticmethod
    def poisson_gaussian(sample_rate: SupportsFloat | SupportsIndex, noise_multiplier: SupportsFloat | SupportsIndex, *, relation: Literal["add-remove", "replace"] = "add-remove") -> Pld:
        """
        One step of DP-SGD with Poisson sampling, where records are added or removed (`add-remove`) or substituted (`replace`).
        """
    def profile(self, /, epsilons: Iterable[float], *, precision: SupportsFloat | SupportsIndex = 0.001) -> list[float]:
        """
        The delta at each of the epsilons, never too small.
        """
    def self_compose(self, /, count: SupportsIndex) -> Pld:
        """
        The mechanism run `count` times.
        """
    def subsample(self, /, rate: SupportsFloat | SupportsIndex, sampling: Literal["poisson", "without-replacement"] = "poisson") -> Pld:
        """
        The mechanism on a sample of the records, each in it with probability `rate`: `poisson` (records added or removed), or
        `without-replacement` (records substituted).
        """
    def trade_off(self, /, alphas: Iterable[float], *, precision: SupportsFloat | SupportsIndex = 0.001) -> list[float]:
        """
        The trade-off curve: at each type-I error of a test between neighbours, a lower bound on its type-II error.
        """

@final
class Predictor:
    """
    The newest model of a run, ready to be asked. Opening it reads the plan and the weights, never the data; `dapple.predict` and
    `Run.predict` are what to use.
    """
    def __new__(cls, folder: str | PathLike[str], /, *, set: Mapping[str, Any] | None = None) -> Predictor: ...
    @property
    def classes(self, /) -> list[str]:
        """
        The names of the classes, in the order of the model's outputs.
        """
    def file(self, path: str | PathLike[str], /) -> list[float] | tuple[int, int, bytes]:
        """
        Asks about a picture, or a clip for a model of clips.
        """
    def pixels(self, width: SupportsIndex, height: SupportsIndex, channels: SupportsIndex, pixels: SupportsGetItem[int, SupportsIndex], /) -> list[float] | tuple[int, int, bytes]:
        """
        Asks about an image of bytes, `[height, width, channels]`.
        """

@final
class Rdp:
    """
    The Rényi divergences of a mechanism as a function of their order: a second opinion that shares no code with `Pld`.

    >>> import dapple
    >>> run = dapple.Rdp.poisson_gaussian(sample_rate=0.01, noise_multiplier=1.0).self_compose(1000)
    >>> [round(divergence, 4) for divergence in run.curve([2, 8, 32])]
    [0.1718, 0.8936, 11246.2759]
    >>> run.epsilon(1e-5) >= dapple.Pld.poisson_gaussian(0.01, 1.0).self_compose(1000).epsilon_bracket(1e-5)[0]
    True
    """
    def compose(self, /, other: Rdp) -> Rdp:
        """
        Both mechanisms on the same data.
        """
    def curve(self, /, orders: Iterable[float]) -> list[float]:
        """
        The divergence at each of the orders, which must be above 1. Of the two directions, the larger one counts.
        """
    def epsilon(self, /, delta: SupportsFloat | SupportsIndex, *, orders: Iterable[float] | None = None) -> float:
        """
        An upper bound on epsilon at `delta`: the best over all real orders, or over those given.
        """
    @staticmethod
    def gaussian(noise_multiplier: SupportsFloat | SupportsIndex, *, sensitivity: SupportsFloat | SupportsIndex = 1.0) -> Rdp:
        """
        The Gaussian mechanism: two normals whose means differ by `sensitivity` at a standard deviation of `noise_multiplier`.
        """
    @staticmethod
    def laplace(epsilon: SupportsFloat | SupportsIndex) -> Rdp:
        """
        The Laplace mechanism with pure privacy parameter `epsilon`.
        """
    @staticmethod
    def poisson_gaussian(sample_rate: SupportsFloat | SupportsIndex, noise_multiplier: SupportsFloat | SupportsIndex) -> Rdp:
        """
        One step of DP-SGD with Poisson sampling, where records are added or removed.
        """
    def self_compose(self, /, count: SupportsIndex) -> Rdp:
        """
        The mechanism run `count` times.
        """

@final
class RunCertificate:
    """
    What a run promised and what it spent. `spent` covers every value that the run has released, by its ledger.
    """
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __repr__(self, /) -> str: ...
    def _repr_html_(self, /) -> str: ...
    @property
    def epsilon(self, /) -> float | None:
        """
        An upper bound on epsilon for everything that the run released: 0 before the first step, `None` without privacy.
        """
    @property
    def planned(self, /) -> Certificate | None:
        """
        The price of the whole plan; `None` without privacy.
        """
    @property
    def private(self, /) -> bool:
        """
        Whether gradients were clipped and noised; if not, nothing is guaranteed.
        """
    @property
    def spent(self, /) -> Certificate | None:
        """
        The price of the steps that count as taken; `None` before the first step, and without privacy.
        """
    @property
    def status(self, /) -> str:
        """
        Whether the run goes on: `running`, `stopped` or `finished`.
        """
    @property
    def steps_spent(self, /) -> int:
        """
        Steps that count as taken.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The fields of the JSON form.
        """
    def to_json(self, /) -> str:
        """
        The certificate as JSON, as in `certificate.json`.
        """
    @property
    def warnings(self, /) -> list[str]:
        """
        What a reader must know before relying on the certificate.
        """

@final
class Sampler:
    """
    Draws the records of every step of a plan, exactly as the accountant assumes: Poisson coins of probability batch / records without
    rounding, uniform subsets, or balanced allocations. The key comes from the operating system. A `seed` is for tests: nothing is private
    from whoever knows it.

    >>> import dapple
    >>> plan = dapple.Plan(batch=2, records=10, steps=3, noise_multiplier=1.0, delta=1e-5)
    >>> sampler = dapple.Sampler(plan)
    >>> sampler.steps, all(0 <= index < 10 for step in range(3) for index in sampler.draw(step))
    (3, True)
    """
    def __new__(cls, /, plan: Plan, *, seed: SupportsIndex | None = None) -> Sampler: ...
    def draw(self, /, step: SupportsIndex) -> list[int]:
        """
        The records of a step, in growing order. A Poisson draw may be empty, and even then the step adds noise.
        """
    @property
    def steps(self, /) -> int:
        """
        Steps of the whole plan.
        """

@final
class TrainingEvent:
    """
    Something that happened in a run. `kind` says what: `begins`, `features`, `step`, `evaluated`, `checkpoint` or `warning`; what does
    not belong to it is `None`.

    `drawn`, `loss` and `clipped` come straight from private records: show them to whoever may see the data, and to nobody else.
    """
    def __repr__(self, /) -> str: ...
    @property
    def clipped(self, /) -> float | None:
        """
        Share of the records whose gradient was longer than the clip norm. The guarantee does not cover this number.
        """
    @property
    def drawn(self, /) -> int | None:
        """
        Records drawn. The guarantee does not cover this number.
        """
    def epsilon(self, /) -> float | None:
        """
        An upper bound on the epsilon spent by the steps so far; `None` without privacy, and for whatever is no step. It is computed when
        it is asked for, which takes from a millisecond to a second, and can be asked for only while the callback runs.
        """
    @property
    def kind(self, /) -> str:
        """
        What happened.
        """
    @property
    def learning_rate(self, /) -> float | None:
        """
        The learning rate of the step.
        """
    @property
    def loss(self, /) -> float | None:
        """
        Mean loss of the records drawn; `None` for an empty batch. The guarantee does not cover this number.
        """
    @property
    def measure(self, /) -> str | None:
        """
        What was measured on the test set, in words.
        """
    @property
    def planned_epsilon(self, /) -> float | None:
        """
        Epsilon of the whole plan, when the run begins; `None` without privacy.
        """
    @property
    def score(self, /) -> float | None:
        """
        How good the model was by that measure.
        """
    @property
    def seconds(self, /) -> float | None:
        """
        Seconds since the run began or was resumed.
        """
    @property
    def step(self, /) -> int | None:
        """
        Steps taken, or records whose features are computed.
        """
    @property
    def steps(self, /) -> int | None:
        """
        Steps of the plan, or records of the data set.
        """
    @property
    def text(self, /) -> str | None:
        """
        What a user should know: a warning, or the machine that computes.
        """

def account(plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None, /, *, precision: SupportsFloat | SupportsIndex = 0.001, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> Certificate:
    """
    Prices a plan: epsilon in a certified bracket, and what it protects.

    The plan is given by keywords (the flags of the command line with underscores; `dapple.keywords()` lists them), by `plan` (a
    `dapple.Plan`, a mapping, or the path of a TOML file), or by both; then keywords are laid over the plan.

    >>> import dapple
    >>> certificate = dapple.account(batch=100, records=3000, epochs=10, noise_multiplier=1.0, delta=1e-5)
    >>> certificate.relation, round(certificate.epsilon, 2)
    ('add-remove', 3.76)
    """

def calibrate(solve_for: str, plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None, /, *, precision: SupportsFloat | SupportsIndex = 0.001, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> Calibration:
    """
    Solves a plan for one unknown: the least noise, or the most of anything else, that keeps epsilon at or below `epsilon`.

    `solve_for` is `noise_multiplier`, `epochs`, `steps`, `batch`, `crop` or `patch`.

    >>> import dapple
    >>> found = dapple.calibrate("noise_multiplier", epsilon=3, batch=100, records=3000, epochs=10, delta=1e-5)
    >>> found.epsilon <= 3, found.name
    (True, 'noise_multiplier')
    """

def certify(folder: str | PathLike[str], /) -> RunCertificate:
    """
    The certificate of a run folder: what its ledger counts.
    """

def inclusion(plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None, /, *, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> Inclusion:
    """
    Computes how likely a crop is to see the private region at the region's worst place.

    >>> import dapple
    >>> dapple.inclusion(image=(1000, 1000), crop=(100, 100), patch=(10, 10))
    Inclusion(probability=0.014635360143680533, worst_origin=(495, 495), hits=11881, crop_origins=811801, views=1)
    """

def inclusion_probability(plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None, /, *, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> float:
    """
    The probability that any view of a record sees the private region at the region's worst place. It is never too small.

    The region is a rectangle (`patch`), a disc (`circle`) or any set of pixels (`region_mask`: an array of bool or uint8,
    `[height, width]`, or the path of a PNG picture).

    >>> import dapple
    >>> dapple.inclusion_probability(image=(2048, 1024), crop=(505, 505), patch=(10, 10))
    0.3290603826225588
    """

def keywords() -> dict[str, dict[str, str]]:
    """
    Every keyword argument that describes a plan, with its dotted key, its type, its meaning, and what holds if it is not given.

    >>> import dapple
    >>> dapple.keywords()["noise_multiplier"]["key"]
    'privacy.noise_multiplier'
    """

def plan_of_run(folder: str | PathLike[str], /) -> Plan:
    """
    The plan of a run folder, with everything filled in.
    """

def profile(plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None, /, *, epsilons: Iterable[float] | str | None = None, precision: SupportsFloat | SupportsIndex = 0.001, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> Table:
    """
    The privacy profile of a plan: for each epsilon the delta it guarantees, and a lower bound on the exact one.

    `epsilons` are numbers, or a text as on the command line (`"0:2:21"` means 21 numbers from 0 to 2). Without them, 41 numbers up to
    twice the plan's own epsilon are taken.

    >>> import dapple
    >>> table = dapple.profile(batch=100, records=3000, epochs=10, noise_multiplier=1.0, epsilons=[1.0, 2.0])
    >>> table.columns
    ['epsilon', 'delta', 'delta_lower']
    """

def resume(folder: str | PathLike[str] | Run, /, *, progress: Callable[[TrainingEvent], object] | None = None, budget: str | PathLike[str] | None = None, epsilon_total: SupportsFloat | SupportsIndex | None = None, set: Mapping[str, Any] | None = None) -> Run:
    """
    Goes on with a run that was stopped or killed; steps that were promised before stay spent. A run that is complete is left as it is.

    `set` changes settings of speed and memory: `{"performance.threads": 1}`.
    """

def sweep(plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None, /, *, over: Mapping[str, Iterable[Any] | str], solve_for: str | None = None, precision: SupportsFloat | SupportsIndex = 0.001, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> Table:
    """
    Prices a plan for every combination of some values, on all cores. With `solve_for`, solves each plan for that unknown instead.

    `over` names the keys that vary, each with its values or with a text as on the command line (`"50:700:50"`, `"64,128"`). The first key
    varies slowest. A row has no answers (`None`) where epsilon is too large to report or no value of the unknown reaches the target.

    >>> import dapple
    >>> table = dapple.sweep(over={"batch": [50, 100], "noise_multiplier": [1.0, 2.0]}, records=3000, epochs=10, delta=1e-5)
    >>> table.columns[:3], len(table)
    (['batch', 'noise_multiplier', 'epsilon'], 4)
    """

def train(plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None, /, *, out: str | PathLike[str], progress: Callable[[TrainingEvent], object] | None = None, budget: str | PathLike[str] | None = None, epsilon_total: SupportsFloat | SupportsIndex | None = None, set: Mapping[str, Any] | None = None, **values: Unpack[PlanKeywords]) -> Run:
    """
    Trains a model by a plan, certifies what it spent, and leaves a run folder: what `dapple train` does.

    `plan` is a mapping, the path of a TOML file or a `dapple.Plan`, with sections `data`, `model` and `optimiser`; keywords and `set` are
    laid over it. Paths in a plan are relative to its file. `out` is a folder that holds no run yet.

    `progress` is called with a `dapple.TrainingEvent` at every event. If it returns `False`, raises, or is interrupted, the run ends in
    order, ready for `dapple.resume`. `budget` counts the run in a budget, whose total is `epsilon_total`.
    """
