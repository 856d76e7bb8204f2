"""Numbers survive every way through Python bit by bit."""

import copy
import json
import math
import pickle
import random
import struct
import subprocess
import sys

import dapple


def doubles(count, low, high, seed):
    """Doubles over decades, with all of their bits in use, and the neighbours of round ones."""
    draw = random.Random(seed)
    for number in range(count):
        value = math.exp(draw.uniform(math.log(low), math.log(high)))
        if number % 5 == 0:
            value = math.nextafter(float(f"{value:.2g}"), math.inf)
        yield min(max(value, low), high)


def bits(value):
    return struct.pack("<d", value)


def same(ours, theirs):
    assert bits(ours) == bits(theirs), (ours.hex(), theirs.hex())


def settings():
    noises, deltas, norms = (
        list(doubles(400, *limits)) for limits in [(0.05, 1e4, 1), (1e-15, 0.5, 2), (1e-6, 1e6, 3)]
    )
    # This one was once read from a ledger with an error in its last place.
    noises[0] = 1.2487224102672019
    return zip(noises, deltas, norms)


def test_plans_keep_their_numbers():
    for noise, delta, norm in settings():
        plan = dapple.Plan(batch=7, records=1000, steps=3, noise_multiplier=noise, delta=delta, max_grad_norm=norm)
        ways = [
            plan,
            dapple.Plan.from_toml(plan.to_toml()),
            dapple.Plan.from_dict(plan.to_dict()),
            dapple.Plan.from_dict(json.loads(json.dumps(plan.to_dict()))),
            pickle.loads(pickle.dumps(plan)),
            copy.deepcopy(plan),
            plan.replace(steps=4).replace(steps=3),
        ]
        for way in ways:
            same(way.noise_multiplier, noise)
            same(way.delta, delta)
            same(way.max_grad_norm, norm)
            assert way == plan and way.hash == plan.hash


def test_certificates_keep_their_numbers():
    for noise, delta, _ in list(settings())[:60]:
        certificate = dapple.account(batch=7, records=1000, steps=3, noise_multiplier=max(noise, 0.3), delta=delta)
        for mapping in (certificate.to_dict(), json.loads(certificate.to_json())):
            same(mapping["noise_multiplier"], certificate.noise_multiplier)
            same(mapping["delta"], delta)
            same(mapping["epsilon"]["upper"], certificate.epsilon)
            same(mapping["epsilon"]["lower"], certificate.bracket[0])
            same(mapping["sample_rate"], certificate.sample_rate)


def test_solved_numbers_price_as_solved():
    for target in doubles(8, 0.1, 20.0, 4):
        found = dapple.calibrate("noise_multiplier", batch=7, records=1000, steps=30, delta=1e-5, epsilon=target)
        solved = json.loads(found.to_json())["solved"]["value"]
        same(solved, found.value)
        same(found.plan.noise_multiplier, found.value)
        same(dapple.Plan.from_toml(found.plan.to_toml()).account().epsilon, found.epsilon)


def test_numbers_keep_their_bits_on_the_way_to_the_program(cli):
    for noise, delta, _ in list(settings())[:12]:
        noise = max(noise, 0.3)
        priced = cli.json("account", batch=7, records=1000, steps=3, noise_multiplier=noise, delta=delta)
        same(priced["noise_multiplier"], noise)
        same(priced["delta"], delta)
        same(priced["epsilon"]["upper"], dapple.account(batch=7, records=1000, steps=3, noise_multiplier=noise, delta=delta).epsilon)


def test_tables_keep_their_numbers():
    noises = [max(noise, 0.3) for noise, _, _ in list(settings())[:30]]
    table = dapple.sweep(over={"noise_multiplier": noises}, batch=7, records=1000, steps=3, delta=1e-5)
    lines = table.to_csv().splitlines()
    places = {name: place for place, name in enumerate(lines[0].split(","))}
    for row, noise, line in zip(table, noises, lines[1:], strict=True):
        same(row["noise_multiplier"], noise)
        same(float(line.split(",")[places["noise_multiplier"]]), noise)
        same(float(line.split(",")[places["epsilon"]]), row["epsilon"])


def test_losses_keep_their_bits():
    for loss, mass, _ in list(settings())[:100]:
        loss, mass = min(loss, 1e4), min(mass, 0.4)
        # With one loss and an infinite one, delta below the loss follows from both, and delta above it is the infinite mass.
        pld = dapple.Pld.from_losses([(0.0, 1.0 - mass)], mass)
        lower, upper = pld.delta_bracket(1.0)
        assert lower <= mass <= upper and upper - lower <= 1e-14 * mass + 5e-16


def test_the_interpreter_reads_what_the_module_prints():
    # Text that Python prints is Python's own shortest form of the same double.
    code = "import dapple; print(repr(dapple.Pld.gaussian(1.2487224102672019).epsilon(1e-5)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    same(float(printed), dapple.Pld.gaussian(1.2487224102672019).epsilon(1e-5))
