"""The server draws clients, clips, adds noise, and states what it cost."""

import dapple.flower
from flwr.serverapp import ServerApp

from federated.task import CLASSES, PLAN, SHAPE, records

app = ServerApp()


@app.main()
def main(grid, context):
    out = context.run_config["out"]
    # Both clients should be there before the first round, because a client that is absent counts as drawn.
    options = {"out": out, "min_online": 2}
    if context.run_config["resume"]:
        strategy = dapple.flower.Strategy.resume(**options)
    else:
        strategy = dapple.flower.Strategy(PLAN, **options)
    images, labels = records(context.run_config["images"], "test")
    strategy.start(
        grid,
        dapple.flower.initial_arrays(PLAN, shape=SHAPE, classes=CLASSES),
        evaluate_fn=dapple.flower.evaluator(PLAN, images, labels, classes=CLASSES),
    )
    print(strategy.certificate)
