"""Masks as arrays, against counting by brute force."""

import pytest

import dapple

np = pytest.importorskip("numpy", reason="numpy is not installed")


def counted(mask, crop, image):
    """Origins of a crop that see a pixel of the mask, and all origins."""
    (width, height), (crop_width, crop_height) = image, crop
    origins = [(x, y) for y in range(height - crop_height + 1) for x in range(width - crop_width + 1)]
    hits = sum(bool(mask[y : y + crop_height, x : x + crop_width].any()) for x, y in origins)
    return hits, len(origins)


@pytest.mark.parametrize("seed", range(5))
def test_annotated_masks_are_counted(seed):
    random = np.random.default_rng(seed)
    mask = random.random((21, 33)) < 0.01
    mask[3, 4] = True
    plan = dict(image=(33, 21), crop=(6, 4), placement="annotated")
    seen = dapple.inclusion(region_mask=mask, **plan)
    assert (seen.hits, seen.crop_origins) == counted(mask, (6, 4), (33, 21))


def test_any_layout_of_memory():
    mask = np.zeros((20, 30), dtype=np.uint8)
    mask[4:9, 5:7] = 255
    plan = dict(image=(30, 20), crop=(5, 5), placement="annotated")
    expected = dapple.inclusion_probability(region_mask=mask, **plan)
    wide = np.zeros((20, 60), dtype=np.uint8)
    wide[:, ::2] = mask
    for same in (mask.astype(bool), np.asfortranarray(mask), wide[:, ::2], mask[::-1][::-1], memoryview(mask), [mask]):
        assert dapple.inclusion_probability(region_mask=same, **plan) == expected


def test_a_plan_keeps_pixels_of_its_own():
    mask = np.zeros((20, 30), dtype=bool)
    mask[4, 5] = True
    plan = dapple.Plan(region_mask=mask, image=(30, 20), crop=(5, 5), batch=1, records=10, steps=1, noise_multiplier=1.0, delta=1e-5)
    before = plan.account()
    mask[:] = True
    assert plan.account() == before == plan.replace(steps=1).account()


def test_the_worst_of_several_masks_counts():
    one, two = np.zeros((2, 20, 30), dtype=bool)
    one[0, 0] = two[10, 15] = True
    plan = dict(image=(30, 20), crop=(5, 5))
    # A pixel in the middle is seen by more crops than one in the corner.
    several = dapple.inclusion_probability(region_mask=[one, two], **plan)
    assert several == max(dapple.inclusion_probability(region_mask=mask, **plan) for mask in (one, two))


@pytest.mark.parametrize(
    "wrong", [np.zeros(5, bool), np.zeros((2, 2, 2), bool), np.zeros((4, 4), np.float32), np.zeros((4, 4), bool)]
)
def test_wrong_masks(wrong):
    with pytest.raises(dapple.PlanError, match=r"region.mask \(region_mask\)") as caught:
        dapple.inclusion(region_mask=wrong, image=(4, 4), crop=(2, 2))
    assert caught.value.hint


def test_another_region_hides_the_mask():
    mask = np.ones((4, 4), bool)
    plan = dapple.Plan(region_mask=mask, image=(40, 40), crop=(8, 8), batch=1, records=10, steps=1, noise_multiplier=1.0, delta=1e-5)
    assert plan.replace(patch=(4, 4)).inclusion_probability == plan.inclusion_probability
    assert plan.replace(steps=2).inclusion_probability == plan.inclusion_probability


def test_heat_maps_are_arrays_without_a_copy():
    seen = dapple.inclusion(image=(40, 20), crop=(8, 8), patch=(2, 2))
    view = seen.heatmap()
    heat = np.asarray(view)
    assert heat.shape == (20, 40) and heat.dtype == np.float32
    assert np.shares_memory(heat, np.frombuffer(view.obj, np.float32))
    assert heat.max() == pytest.approx(seen.probability, rel=1e-6)  # single precision
