"""A client trains on its own share of the photographs."""

import dapple.flower

from federated.task import CLASSES, PLAN, records


def data(context):
    images, labels = records(context.node_config["images"], "train")
    own = slice(int(context.node_config["client"]), None, 2)
    return images[own], labels[own]


app = dapple.flower.client(PLAN, data, classes=CLASSES, steps=20, batch=64, learning_rate=0.1)
