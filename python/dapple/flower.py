"""Federated learning on Flower, private at the level of clients.

    strategy = dapple.flower.Strategy(plan, out="runs/federated")
    strategy.start(grid, initial_arrays=dapple.flower.initial_arrays(plan, shape=[1, 28, 28], classes=10))
    strategy.certificate

Flower carries the messages. Who is asked, what becomes of the answers, and what it costs is decided in Rust: coins and noise come
from a generator that is keyed by the operating system, a round is in a ledger on disk before a client is asked, updates are clipped
by the server and added in whole numbers. The server is trusted: it sees every update in the clear.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from logging import INFO
from os import PathLike
from pathlib import Path
from typing import Any

try:
    import numpy
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Result
    from flwr.serverapp.strategy import Strategy as _FlowerStrategy
    from flwr.supercore import log
except ImportError as error:
    raise ImportError(
        f"dapple.flower needs Flower 1.41 or newer ({error}): pip install 'flwr>=1.41', or 'flwr[simulation]>=1.41' to simulate clients"
    ) from error

import dapple
from dapple import _dapple
from dapple.errors import PlanError, RunError

__all__ = ["Strategy", "certify", "client", "evaluator", "initial_arrays"]

#: The records of a message, by the names that Flower's own strategies and templates give them.
_ARRAYS, _CONFIG, _METRICS = "arrays", "config", "metrics"

#: Seconds between two looks at who is online.
_LOOK = 0.2

#: A plan, a mapping of its sections, or the path of a TOML file.
_Plan = _dapple.Plan | Mapping[str, Any] | str | PathLike[str]


class Strategy(_FlowerStrategy):
    """Draws clients by independent coins, clips what they send, adds noise, and counts what it costs.

    The plan is at the level of users: `relation="user"`, `records` declares how many clients there are, `batch` how many a round asks on
    average, `steps` the rounds, `max_grad_norm` the norm to which a client's whole update is clipped. `out` is the folder of the run:
    plan, ledger, model and certificate. After a crash, `Strategy.resume(out)` goes on; rounds that were promised stay spent.

    A client that was drawn and does not answer, fails, or sends what is not finite or has another shape counts as drawn, with an update of
    zero. Nothing that clients report of their records is collected: metrics of training would not be private, so there are none, and
    no client is asked to evaluate. Give `start` an `evaluate_fn` with public data.

    Any Flower `ClientApp` does that answers with the weights it has trained; `dapple.flower.client` makes one.
    """

    def __init__(
        self,
        plan: _Plan | None,
        *,
        out: str | PathLike[str],
        server_learning_rate: float = 1.0,
        min_online: int = 1,
    ) -> None:
        self.folder = Path(out)
        self.server_learning_rate = server_learning_rate
        self.min_online = min_online
        self._plan = plan
        self._run: _dapple.FederatedRun | None = None
        self._asked: dict[int, int] = {}
        # Arrays that do not train, such as counters, and the types of those that do.
        self._constant: dict[str, Any] = {}
        self._types: dict[str, Any] = {}

    @classmethod
    def resume(cls, out: str | PathLike[str], **options: Any) -> Strategy:
        """The strategy of a run that was stopped or killed, which goes on from its last model."""
        strategy = cls(None, out=out, **options)
        strategy._run = _dapple.FederatedRun.resume(strategy.folder)
        return strategy

    @property
    def certificate(self) -> _dapple.FederatedCertificate:
        """What the rounds so far cost, by the ledger, at the level of clients."""
        if self._run is None:
            return certify(self.folder)
        return self._run.certificate()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int | None = None,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Carries out the rounds that are left of the plan, or the next `num_rounds` of them.

        A run that is resumed goes on from its own model; of `initial_arrays` it takes only what does not train.
        """
        if initial_arrays is not None:
            self._take(initial_arrays)
        if self._run is None:
            if initial_arrays is None or self._plan is None:
                raise PlanError("a new run needs its first model", "give initial_arrays, e.g. dapple.flower.initial_arrays(plan, ...)")
            self._run = self._begin(initial_arrays)
        run = self._run
        before, left = run.rounds_spent, run.rounds - run.rounds_spent
        rounds = left if num_rounds is None else num_rounds
        if not 0 <= rounds <= left:
            raise PlanError(f"{rounds} rounds, but {left} are left of the plan's {run.rounds}", "plan as many rounds as there will be")
        evaluate = None if evaluate_fn is None else lambda round, arrays: evaluate_fn(before + round, arrays)
        try:
            result = super().start(
                grid, self._record(), rounds, timeout, train_config, evaluate_config, evaluate
            )
        finally:
            run.stop()
        if result.arrays is None or not len(result.arrays):
            result.arrays = self._record()
        return result

    def _begin(self, arrays: ArrayRecord) -> _dapple.FederatedRun:
        first = {name: arrays[name].numpy() for name in self._types}
        shapes = [(name, list(array.shape)) for name, array in first.items()]
        return _dapple.FederatedRun.start(self._plan, self.folder, shapes, _flat(first.values()))

    def _take(self, arrays: ArrayRecord) -> None:
        """Tells arrays that train from those that do not, because they hold no real numbers."""
        for name, array in arrays.items():
            values = array.numpy()
            if numpy.issubdtype(values.dtype, numpy.floating):
                self._types[name] = values.dtype
            else:
                self._constant[name] = values

    def _record(self) -> ArrayRecord:
        """The model as it is sent and released."""
        found = dict(self._constant)
        values, place = numpy.frombuffer(self._held().values, "<f4"), 0
        for name, shape in self._held().arrays:
            count = int(numpy.prod(shape, dtype=int))
            array = values[place : place + count].reshape(shape)
            found[name] = array.astype(self._types.get(name, numpy.float32))
            place += count
        return _arrays(found)

    def _held(self) -> _dapple.FederatedRun:
        if self._run is None:
            raise RunError("the run has not begun", "call start, which makes its folder and its ledger")
        return self._run

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """Promises a round on disk, draws its clients, and only then says whom to ask."""
        nodes = self._online(grid)
        run = self._held()
        drawn = set(run.promise(len(nodes)))
        # Coins know nothing of nodes, so it does not matter which node has which; a place without a node is a client who is absent.
        self._asked = {node: place for place, node in enumerate(nodes) if place in drawn}
        config["server-round"] = run.rounds_spent
        content = RecordDict({_ARRAYS: self._record(), _CONFIG: config})
        return [Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node) for node in self._asked]

    def _online(self, grid: Grid) -> list[int]:
        """The nodes that are there, once there are enough."""
        while True:
            nodes = {node.node_id: bytes(node.public_key) for node in grid.get_nodes()}
            keys = [key for key in nodes.values() if key]
            if len(keys) != len(set(keys)):
                raise RunError(
                    "two nodes have the same public key: one client would be drawn by two coins", "let each client run one SuperNode"
                )
            if len(nodes) >= self.min_online:
                return sorted(nodes)
            time.sleep(_LOOK)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Clips and adds what came back, adds the noise, and keeps the model that follows."""
        run = self._held()
        old = numpy.frombuffer(run.values, "<f4")
        for reply in replies:
            # A second answer of a node finds its place taken.
            place = self._asked.pop(reply.metadata.src_node_id, None)
            if place is not None and not reply.has_error():
                run.add(place, self._update(reply, old))
        self._asked = {}
        mean = numpy.frombuffer(run.finish_round(), "<f4")
        run.keep((old + numpy.float32(self.server_learning_rate) * mean).astype("<f4").tobytes())
        return self._record(), None

    def _update(self, reply: Message, old: numpy.ndarray) -> bytes:
        """What a client has changed; nothing if its answer cannot be read, whatever is in it."""
        try:
            arrays = reply.content[_ARRAYS]
            parts = []
            for name, shape in self._held().arrays:
                array = arrays[name].numpy()
                if list(array.shape) != list(shape):
                    return b""
                parts.append(array.astype(numpy.float64).ravel())
            new = numpy.concatenate(parts)
            with numpy.errstate(all="ignore"):
                return (new - old).astype("<f4").tobytes()
        except Exception:
            return b""

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """Asks nobody: what clients measure on their records would not be private."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Collects nothing."""
        return None

    def summary(self) -> None:
        """Says what the run will cost."""
        planned = self._held().certificate().planned
        log(INFO, "\t├──> %s of %s clients a round, each drawn by its own coin", planned.batch, planned.records)
        log(INFO, "\t├──> epsilon at most %.4g at delta %g after %s rounds", planned.epsilon, planned.delta, planned.steps)
        log(INFO, "\t└──> protects %s", planned.protects)


def certify(folder: str | PathLike[str]) -> _dapple.FederatedCertificate:
    """The certificate of the run in a folder, from its plan and its ledger. A run in progress is not disturbed."""
    return _dapple.FederatedCertificate.of(folder)


def initial_arrays(plan: _Plan, *, shape: Iterable[int], classes: int) -> ArrayRecord:
    """The first weights of the plan's model, for inputs of a shape `[channels, height, width]`. Parts that do not train stay with the clients."""
    trainer = _dapple.LocalTrainer(plan, list(shape), classes)
    return _record_of(trainer)


def client(
    plan: _Plan,
    data: Callable[[Context], tuple[Any, Any]],
    *,
    classes: int,
    steps: int = 1,
    batch: int = 16,
    learning_rate: float = 0.1,
    threads: int = 1,
) -> ClientApp:
    """A `ClientApp` that trains the plan's model on its own records in our engine, without noise: the server clips and adds the noise.

    `data` gives the records of a client, who is known by `context.node_config`: images as `[n, channels, height, width]` of real numbers,
    or as `[n, height, width, channels]` or `[n, height, width]` of uint8, which are divided by 255; and labels as whole numbers. A round is `steps` steps of
    gradient descent on `batch` records each.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        images, labels = data(context)
        inputs, labels = _inputs(images), [int(label) for label in labels]
        trainer = _dapple.LocalTrainer(plan, list(inputs.shape[1:]), classes, threads=threads)
        sent = message.content[_ARRAYS]
        trainer.set(_flat(sent[name].numpy() for name, _ in trainer.arrays))
        trainer.train(inputs.tobytes(), labels, steps=steps, batch=batch, learning_rate=learning_rate)
        content = RecordDict({_ARRAYS: _record_of(trainer), _METRICS: MetricRecord()})
        return Message(content=content, reply_to=message)

    return app


def evaluator(plan: _Plan, images: Any, labels: Any, *, classes: int) -> Callable[[int, ArrayRecord], MetricRecord]:
    """An `evaluate_fn` for `Strategy.start`: the accuracy on records that are public."""
    inputs, labels = _inputs(images), [int(label) for label in labels]
    trainer = _dapple.LocalTrainer(plan, list(inputs.shape[1:]), classes)

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        trainer.set(_flat(arrays[name].numpy() for name, _ in trainer.arrays))
        return MetricRecord({"accuracy": trainer.accuracy(inputs.tobytes(), labels)})

    return evaluate


def _record_of(trainer: _dapple.LocalTrainer) -> ArrayRecord:
    values, place, found = numpy.frombuffer(trainer.values, "<f4"), 0, {}
    for name, shape in trainer.arrays:
        count = int(numpy.prod(shape, dtype=int))
        found[name] = values[place : place + count].reshape(shape)
        place += count
    return _arrays(found)


def _arrays(found: Mapping[str, Any]) -> ArrayRecord:
    return ArrayRecord({name: Array(numpy.array(values, order="C")) for name, values in found.items()})


def _flat(arrays: Iterable[Any]) -> bytes:
    return b"".join(numpy.ascontiguousarray(array, dtype="<f4").tobytes() for array in arrays)


def _inputs(images: Any) -> Any:
    images = numpy.asarray(images)
    if images.dtype == numpy.uint8:
        images = images[..., None] if images.ndim == 3 else images
        images = images.transpose(0, 3, 1, 2) / numpy.float32(255)
    if images.ndim != 4:
        raise PlanError(
            f"images of {images.ndim} dimensions", "give [n, channels, height, width] of real numbers, or [n, height, width, channels] of uint8"
        )
    return numpy.ascontiguousarray(images, dtype="<f4")
