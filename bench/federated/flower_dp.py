#!/usr/bin/env python3
"""What Flower's own differential privacy says and does, beside `dapple.flower`: the figures of docs/federated.md.

    pip install . "flwr>=1.41" numpy dp-accounting && bench/federated/flower_dp.py
"""

import numpy
from flwr.supercore import differential_privacy
from flwr.supercore.privacy_accounting import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, SamplingMethod
from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant

import dapple

CLIENTS, ASKED, ROUNDS, NOISE, DELTA = 1000, 100, 100, 1.0, 1e-5


def accounted():
    """Its strategies accept an accountant without amplification alone."""
    config = PrivacyConfig(
        target_delta=DELTA,
        population_size=CLIENTS,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        sampling_method=SamplingMethod.NO_AMPLIFICATION,
    )
    accountant = RdpAccountant(config)
    accountant.compose(GaussianPrivacyEvent(NOISE, ASKED, CLIENTS), ROUNDS)
    return accountant.get_epsilon(DELTA)


def noise(seed):
    """The noise on a model of four zeros, after somebody seeded numpy's global generator."""
    numpy.random.seed(seed)
    model = [numpy.zeros(4)]
    differential_privacy.add_gaussian_noise_inplace(model, 1.0)
    return model[0]


def clipped(update):
    """What its clipping makes of an update."""
    arrays = [numpy.array(update, numpy.float32)]
    try:
        differential_privacy.clip_inputs_inplace(arrays, 1.0)
    except ArithmeticError as error:
        return repr(error)
    return arrays[0]


def main():
    ours = dapple.account(relation="user", records=CLIENTS, batch=ASKED, steps=ROUNDS, noise_multiplier=NOISE, delta=DELTA)
    exact = dapple.Pld.gaussian(NOISE).self_compose(ROUNDS).epsilon(DELTA)
    print(f"{ASKED} of {CLIENTS} clients, {ROUNDS} rounds, noise multiplier {NOISE}, delta {DELTA}")
    print(f"Flower's accountant                 epsilon {accounted():.4g}")
    print(f"the same mechanism, priced exactly  epsilon {exact:.4g}")
    print(f"Poisson coins, dapple.flower        epsilon {ours.epsilon:.4g}")
    print("noise follows a global seed:", bool((noise(1) == noise(1)).all()))
    print("an update that is not a number, clipped:", clipped([numpy.nan, 0.0]))
    print("an update of no length, clipped:", clipped([0.0, 0.0]))


main()
