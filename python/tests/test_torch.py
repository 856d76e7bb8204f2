"""Samplers and crops, against the laws they are priced by."""

import math
import pickle
from typing import NamedTuple

import pytest
from plans import RECORDS

import dapple

torch = pytest.importorskip("torch", reason="torch is not installed: samplers and crops are not tested")

import dapple.torch as ours  # noqa: E402

#: Chance of a false alarm in each statistical test, by Hoeffding's inequality for each count and a union bound over them.
ALPHA = 1e-6

SMALL = dict(image=(12, 10), crop=(5, 4), patch=(3, 2), batch=4, records=20, epochs=3, noise_multiplier=1.0, delta=1e-5)


def deviation(draws, counts):
    """How far a share of independent draws may lie from its probability, with chance ALPHA for any of the counts."""
    return math.sqrt(math.log(2 * counts / ALPHA) / (2 * draws))


def test_passes_are_epochs_and_end_with_the_plan():
    sampler = ours.PoissonBatchSampler(dapple.Plan(**SMALL))
    for _ in range(3):
        assert len(sampler) == 5 and len(list(sampler)) == 5
    with pytest.raises(dapple.PlanError, match="all 15 steps of the plan are done"):
        list(sampler)


def test_every_scheme_has_its_sampler():
    for scheme, kind in [
        ("poisson", ours.PoissonBatchSampler),
        ("without-replacement", ours.WithoutReplacementBatchSampler),
        ("balanced", ours.BalancedIterationSampler),
    ]:
        plan = dapple.Plan(**{**RECORDS, "sampling": scheme, "relation": "replace"})
        assert type(ours.batch_sampler(plan)) is kind
        with pytest.raises(dapple.PlanError, match="the plan says"):
            other = ours.PoissonBatchSampler if scheme != "poisson" else ours.BalancedIterationSampler
            other(plan)


def test_poisson_shares():
    plan = dapple.Plan(batch=3, records=10, steps=20_000, noise_multiplier=1.0, delta=1e-5)
    sampler = dapple.Sampler(plan)
    counts = [0] * 10
    sizes = 0
    for step in range(20_000):
        drawn = sampler.draw(step)
        sizes += len(drawn) == 3
        for record in drawn:
            counts[record] += 1
    allowed = deviation(20_000, 11)
    assert all(abs(count / 20_000 - 0.3) < allowed for count in counts)
    # Sizes are binomial, not fixed.
    assert abs(sizes / 20_000 - math.comb(10, 3) * 0.3**3 * 0.7**7) < allowed


def test_subsets_have_their_size():
    plan = dapple.Plan(**{**SMALL, "sampling": "without-replacement"})
    assert all(len(set(batch)) == len(batch) == 4 for batch in ours.WithoutReplacementBatchSampler(plan))


def test_balanced_epochs_see_each_record_as_often_as_planned():
    values = dict(batch=4, records=20, epochs=3, per_record=2, sampling="balanced", noise_multiplier=1.0, delta=1e-5)
    sampler = ours.BalancedIterationSampler(dapple.Plan(**values))
    for _ in range(3):
        seen = sorted(record for batch in sampler for record in batch)
        assert seen == sorted(2 * list(range(20)))


def test_keys_come_from_the_operating_system_unless_seeded():
    plan = dapple.Plan(**{**SMALL, "records": 1000, "batch": 500})
    draws = [dapple.Sampler(plan).draw(0) for _ in range(2)]
    assert draws[0] != draws[1]
    assert dapple.Sampler(plan, seed=1).draw(0) == dapple.Sampler(plan, seed=1).draw(0)


def test_origins_are_uniform_and_sees_what_is_priced():
    plan = dapple.Plan(**SMALL)
    crop = ours.UniformCrop(plan)
    image = torch.zeros(1, 10, 12)
    # The worst place of a 3x2 patch.
    x, y = dapple.inclusion(plan).worst_origin
    image[:, y : y + 2, x : x + 3] = 1
    draws, hits, origins = 40_000, 0, {}
    for _ in range(draws):
        hits += bool(crop(image).any())
        origin = crop.origin()
        origins[origin] = origins.get(origin, 0) + 1
    allowed = deviation(draws, 57)
    assert len(origins) == 8 * 7
    assert all(abs(count / draws - 1 / 56) < allowed for count in origins.values())
    assert abs(hits / draws - plan.inclusion_probability) < allowed


def test_image_and_label_share_the_origin_and_zeros_pad():
    plan = dapple.Plan(**SMALL, pad=(3, 2))
    crop = ours.UniformCrop(plan, label_fill=255)
    image = torch.arange(1, 121).reshape(1, 10, 12)
    padded = False
    for _ in range(200):
        cut, label = crop(image, image[0])
        assert cut.shape == (1, 4, 5) and label.shape == (4, 5)
        assert torch.equal(torch.where(cut[0] == 0, 255, cut[0]), label)
        padded |= bool((cut == 0).any())
    assert padded


def test_views():
    plan = dapple.Plan(**SMALL, views=3)
    images, labels = ours.views(plan)(torch.rand(3, 10, 12), torch.zeros(10, 12))
    assert images.shape == (3, 3, 4, 5) and labels.shape == (3, 4, 5)
    assert ours.views(plan)(torch.rand(3, 10, 12)).shape == (3, 3, 4, 5)


def test_other_sizes_are_refused():
    crop = ours.UniformCrop(dapple.Plan(**SMALL))
    with pytest.raises(dapple.UnsoundPipelineError, match="an image of 10x12 reaches the crop"):
        crop(torch.zeros(3, 12, 10))


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(crop=None), "crop of fixed size"),
        (dict(pad=4, pad_mode="reflect"), "pads with zeros"),
        (dict(operations=["resize 12x10 bilinear"]), "does not carry out"),
        (dict(pixel_noise=2.0), "adds no noise to pixels"),
    ],
)
def test_plans_that_a_crop_cannot_carry_out(change, message):
    with pytest.raises(dapple.PlanError, match=message) as caught:
        ours.UniformCrop(dapple.Plan(**{**SMALL, **change}))
    assert caught.value.hint


def test_loaders_give_empty_batches():
    plan = dapple.Plan(**{**SMALL, "batch": 1, "steps": 200, "epochs": None})
    records = [(torch.rand(3, 10, 12), index) for index in range(20)]
    batches = list(ours.loader(records, plan)) + list(ours.loader(records, plan, num_workers=1))
    assert len(batches) == 2 * plan.epoch_steps
    assert all(images.shape == (len(labels), 3, 4, 5) for images, labels in batches)
    empty = ours.loader(records, plan).collate_fn([])
    assert empty[0].shape == (0, 3, 4, 5) and empty[1].shape == (0,)


def test_empty_batches_keep_the_form_of_a_record():
    class Scene(NamedTuple):
        image: torch.Tensor
        boxes: dict[str, torch.Tensor]

    plan = dapple.Plan(batch=4, records=20, epochs=3, noise_multiplier=1.0, delta=1e-5)
    loader = ours.loader([Scene(torch.rand(3, 10, 12), {"corner": torch.zeros(2)})] * 20, plan)
    empty = loader.collate_fn([])
    assert isinstance(empty, Scene) and empty.image.shape == (0, 3, 10, 12) and empty.boxes["corner"].shape == (0, 2)


def test_loaders_refuse_what_the_plan_says():
    records = [(torch.rand(3, 10, 12), 0)] * 20
    plan = dapple.Plan(**SMALL)
    with pytest.raises(dapple.UnsoundPipelineError, match="shuffle is given"):
        ours.loader(records, plan, shuffle=True)
    with pytest.raises(dapple.PlanError, match="the plan is for 20 records"):
        ours.loader(records[:7], plan)


def test_crops_travel_to_other_processes():
    crop = pickle.loads(pickle.dumps(ours.UniformCrop(dapple.Plan(**SMALL))))
    assert crop(torch.zeros(10, 12)).shape == (4, 5)
