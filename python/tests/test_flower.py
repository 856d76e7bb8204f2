"""Federated runs on Flower: who is asked, what becomes of the answers, and what it costs."""

import json
import os
import subprocess
import sys

import pytest

import dapple

numpy = pytest.importorskip("numpy", reason="numpy is not installed")
pytest.importorskip("flwr", reason="flwr is not installed")
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.proto.node_pb2 import NodeInfo  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

import dapple.flower  # noqa: E402

CLIENTS, SHAPE, CLASSES = 100, [1, 4, 4], 2
PLAN = {
    "privacy": {"relation": "user", "noise_multiplier": 0.5, "max_grad_norm": 0.5, "delta": 1e-3},
    "sampling": {"batch": 30, "records": CLIENTS, "steps": 5},
    "model": {"name": "linear"},
}


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Flower tells the process of a server app who it is."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def plan(**changes):
    return {name: {**section, **changes.get(name, {})} for name, section in PLAN.items()}


def records(number):
    """The records of a client: pictures that are bright on the left or on the right."""
    random = numpy.random.default_rng(number)
    labels = random.integers(0, CLASSES, 6)
    images = random.random((6, *SHAPE), dtype=numpy.float32) * 0.2
    for image, label in zip(images, labels):
        image[:, :, 2 * label : 2 * label + 2] += 0.8
    return images, labels


def data(context):
    return records(context.node_config["partition-id"])


def app():
    return dapple.flower.client(PLAN, data, classes=CLASSES, steps=4, batch=6, learning_rate=0.2)


class NodeGrid(Grid):
    """Clients in this process. `behaviour` may take the place of the client app at some nodes."""

    def __init__(self, nodes, client=None, behaviour=None, keys=None):
        self.nodes, self.client, self.behaviour, self.keys = list(nodes), client or app(), behaviour or {}, keys or {}
        self.asked = []
        self.before_round = lambda: None

    def set_run(self, run):
        pass

    run = None

    def create_message(self, *_, **__):
        raise NotImplementedError

    def get_node_ids(self):
        return self.nodes

    def get_nodes(self):
        return [NodeInfo(node_id=node, public_key=self.keys.get(node, b"")) for node in self.nodes]

    def push_messages(self, messages):
        raise NotImplementedError

    pull_messages = push_messages

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        if messages:
            self.before_round()
        self.asked.append([message.metadata.dst_node_id for message in messages])
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            answer = self.behaviour.get(node, self.answer)
            replies += [reply for reply in answer(message, node) if reply is not None]
        return replies

    def answer(self, message, node):
        context = Context(run_id=1, node_id=node, node_config={"partition-id": node}, state=RecordDict(), run_config={})
        return [self.client(message, context)]


def arrays(plan=PLAN):
    return dapple.flower.initial_arrays(plan, shape=SHAPE, classes=CLASSES)


def flat(record):
    return numpy.concatenate([array.numpy().ravel() for array in record.values()])


def test_a_hundred_clients_learn_and_the_ledger_counts(tmp_path):
    strategy = dapple.flower.Strategy(PLAN, out=tmp_path / "run")
    grid = NodeGrid(range(CLIENTS))

    def counted():
        spent = dapple.flower.certify(tmp_path / "run").rounds_spent
        # The round is on disk before the first client is asked.
        assert spent == len([asked for asked in grid.asked if asked]) + 1

    grid.before_round = counted
    images, labels = records(10**6)
    evaluate = dapple.flower.evaluator(PLAN, images, labels, classes=CLASSES)
    result = strategy.start(grid, arrays(), evaluate_fn=evaluate)
    certificate = strategy.certificate
    assert certificate.status == "finished" and certificate.rounds_spent == 5
    priced = dapple.account(PLAN)
    assert certificate.epsilon == priced.epsilon and certificate.spent == certificate.planned
    assert priced.relation == "user" and "server is trusted" in certificate.trust
    assert any("server is trusted" in sentence for sentence in certificate.planned.assumptions)
    asked = [len(asked) for asked in grid.asked if asked]
    # Every round draws by coins of 0.3: a hundred of them give 12 to 48 but once in ten thousand rounds.
    assert len(asked) == 5 and all(12 <= number <= 48 for number in asked) and len(set(asked)) > 1
    accuracy = [metrics["accuracy"] for metrics in result.evaluate_metrics_serverapp.values()]
    assert len(accuracy) == 6
    stored = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert stored == certificate.to_dict()
    assert not result.train_metrics_clientapp and not result.evaluate_metrics_clientapp
    assert "trust" in certificate._repr_html_()


def test_without_noise_to_speak_of_the_model_is_the_mean(tmp_path):
    """One round in which all are asked, at next to no noise: the update is the sum of clipped updates over the expected number."""
    quiet = plan(privacy={"noise_multiplier": 0.05}, sampling={"batch": 20, "records": 20, "steps": 1})
    strategy = dapple.flower.Strategy(quiet, out=tmp_path / "run")
    first = flat(arrays())

    def moved(number):
        def answer(message, node):
            move = numpy.full(first.size, number, numpy.float32)
            return [reply(message, flat(message.content["arrays"]) + move)]

        return answer

    lengths = [0.01 * node for node in range(20)]
    grid = NodeGrid(range(20), behaviour={node: moved(length) for node, length in enumerate(lengths)})
    result = strategy.start(grid, arrays())
    clip = 0.5 / numpy.sqrt(first.size)
    expected = numpy.mean([min(length, clip) for length in lengths])
    # Noise of 0.05 * 0.5 / 20 in each coordinate: seven deviations are never seen; rounding to single precision is far below.
    assert numpy.abs(flat(result.arrays) - first - expected).max() < 7 * 0.05 * 0.5 / 20 + 1e-6


def reply(message, values):
    found, place = {}, 0
    for name, array in message.content["arrays"].items():
        size = array.numpy().size
        found[name] = Array(numpy.asarray(values[place : place + size], numpy.float32).reshape(array.numpy().shape))
        place += size
    return Message(content=RecordDict({"arrays": ArrayRecord(found), "metrics": MetricRecord()}), reply_to=message)


def test_whatever_clients_do_the_round_is_released(tmp_path):
    """Clients that are absent, fail, lie, or answer twice."""
    everyone = plan(sampling={"batch": 10, "records": 10, "steps": 2}, privacy={"noise_multiplier": 0.05})
    strategy = dapple.flower.Strategy(everyone, out=tmp_path / "run")
    first = flat(arrays())

    def still(message):
        return flat(message.content["arrays"])

    def fails(message, node):
        return [Message(Error(code=0, reason="it broke"), reply_to=message)]

    def says_nothing(message, node):
        return [Message(content=RecordDict(), reply_to=message)]

    def damaged(message, node):
        names = message.content["arrays"].keys()
        record = ArrayRecord({name: Array("float32", (2,), "numpy.ndarray", b"no numbers") for name in names})
        return [Message(content=RecordDict({"arrays": record}), reply_to=message)]

    def not_a_number(message, node):
        return [reply(message, numpy.full(first.size, numpy.nan))]

    def too_much(message, node):
        return [reply(message, numpy.full(first.size, 1e38))]

    def twice(message, node):
        return [reply(message, still(message) + 1)] * 2

    def for_another(message, node):
        answer = reply(message, still(message) + 1)
        answer.metadata.__dict__["_src_node_id"] = 77
        return [answer]

    behaviour = {
        0: fails, 1: says_nothing, 2: damaged, 3: not_a_number, 4: too_much, 5: twice, 6: for_another, 7: lambda *_: [],
    }
    # Nodes 8 and 9 are not there.
    result = strategy.start(NodeGrid(range(8), behaviour=behaviour), arrays())
    lines = (tmp_path / "run" / "private" / "rounds.jsonl").read_text().splitlines()
    counts = json.loads(lines[0])
    assert counts == {"round": 0, "drawn": 10, "answered": 5, "clipped": 1, "unusable": 4}
    assert oct((tmp_path / "run" / "private").stat().st_mode)[-3:] == "700"
    moved = flat(result.arrays) - first
    # Of both rounds, one update of length 0.5 each counts, over ten expected clients. The mean of all coordinates has noise of
    # sqrt(2) * 0.05 * 0.5 / 10 / sqrt(34), of which seven deviations are never seen.
    assert abs(moved.mean() - 2 * 0.5 / numpy.sqrt(first.size) / 10) < 7 * numpy.sqrt(2 / first.size) * 0.05 * 0.5 / 10
    assert strategy.certificate.rounds_spent == 2


def test_more_clients_than_declared_are_refused(tmp_path):
    strategy = dapple.flower.Strategy(PLAN, out=tmp_path / "run")
    with pytest.raises(dapple.RunError, match="101 clients are online, and the plan declares 100"):
        strategy.start(NodeGrid(range(CLIENTS + 1)), arrays())
    assert strategy.certificate.rounds_spent == 0


def test_one_client_with_two_nodes_is_refused(tmp_path):
    strategy = dapple.flower.Strategy(PLAN, out=tmp_path / "run")
    with pytest.raises(dapple.RunError, match="same public key"):
        strategy.start(NodeGrid(range(3), keys={0: b"one", 2: b"one", 1: b"other"}), arrays())
    assert strategy.certificate.rounds_spent == 0


def test_a_server_that_dies_does_not_take_its_round_again(tmp_path):
    folder = tmp_path / "run"
    strategy = dapple.flower.Strategy(PLAN, out=folder)
    grid = NodeGrid(range(CLIENTS))
    strategy.start(grid, arrays(), num_rounds=2)
    assert strategy.certificate.status == "stopped" and strategy.certificate.rounds_spent == 2
    kept = flat(strategy._record())

    class Power(BaseException):
        pass

    def fails():
        raise Power

    grid.before_round = fails
    with pytest.raises(Power):
        strategy.start(grid)
    del strategy
    again = dapple.flower.Strategy.resume(folder)
    assert again.certificate.rounds_spent == 3
    assert (flat(again._record()) == kept).all()
    grid.before_round = lambda: None
    heard = []
    result = again.start(grid, arrays(), evaluate_fn=lambda round, _: heard.append(round))
    assert heard == [3, 4, 5] and again.certificate.status == "finished"
    assert any("crash lost" in warning for warning in again.certificate.warnings)
    assert (flat(result.arrays) == flat(again._record())).all()
    with pytest.raises(dapple.PlanError, match="1 rounds, but 0 are left"):
        again.start(grid, num_rounds=1)


def test_what_does_not_train_is_sent_as_it_is(tmp_path):
    one = plan(sampling={"batch": 3, "records": 3, "steps": 1})
    record = ArrayRecord({
        "weight": Array(numpy.ones((2, 2), numpy.float64)),
        "count": Array(numpy.array([7], numpy.int64)),
        "bias": Array(numpy.zeros((), numpy.float32)),
    })
    seen = []

    def answer(message, node):
        seen.append({name: array.numpy() for name, array in message.content["arrays"].items()})
        return [reply(message, numpy.ones(100))]

    strategy = dapple.flower.Strategy(one, out=tmp_path / "run")
    result = strategy.start(NodeGrid(range(3), behaviour=dict.fromkeys(range(3), answer)), record)
    assert seen[0]["count"] == [7] and seen[0]["weight"].dtype == numpy.float64 and seen[0]["bias"].shape == ()
    assert result.arrays["count"].numpy() == [7] and result.arrays["weight"].numpy().dtype == numpy.float64


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(privacy={"relation": "add-remove"}), "privacy.relation"),
        (dict(privacy={"max_grad_norm": None}), "privacy.max_grad_norm"),
        (dict(sampling={"scheme": "balanced"}), "sampling"),
    ],
)
def test_plans_that_a_server_does_not_carry_out(change, words, tmp_path):
    strategy = dapple.flower.Strategy(plan(**change), out=tmp_path / "run")
    with pytest.raises(dapple.DappleError, match=words):
        strategy.start(NodeGrid(range(3)), arrays())
    assert not (tmp_path / "run").exists()


def test_a_new_run_needs_a_model(tmp_path):
    with pytest.raises(dapple.PlanError, match="needs its first model"):
        dapple.flower.Strategy(PLAN, out=tmp_path / "run").start(NodeGrid(range(3)))


def test_without_flower_the_message_says_how_to_get_it():
    script = (
        "import sys\nsys.modules['flwr'] = None\nimport dapple\n"
        "dapple.account(batch=1, records=10, steps=1, noise_multiplier=1.0, delta=1e-5)\n"
        "try:\n    import dapple.flower\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'flwr>=1.41'" in done.stdout


def test_a_simulation_of_a_hundred_clients(tmp_path):
    """Flower's own simulation, in processes of its own."""
    pytest.importorskip("ray", reason="flwr[simulation] is not installed")
    from flwr.simulation import run_simulation

    server, out = ServerApp(), tmp_path / "run"

    @server.main()
    def main(grid, context):
        short = plan(sampling={"steps": 3})
        strategy = dapple.flower.Strategy(short, out=out, min_online=CLIENTS)
        strategy.start(grid, arrays(short))

    run_simulation(
        server_app=server,
        client_app=app(),
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}},
    )
    certificate = dapple.flower.certify(out)
    assert certificate.status == "finished" and certificate.rounds_spent == 3
    counts = [json.loads(line) for line in (out / "private" / "rounds.jsonl").read_text().splitlines()]
    assert len(counts) == 3 and all(count["drawn"] == count["answered"] > 0 for count in counts)
    assert all(count["unusable"] == 0 for count in counts)
