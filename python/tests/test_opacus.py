"""Training with Opacus by a plan, and what is refused."""

import json

import pytest

import dapple

torch = pytest.importorskip("torch", reason="torch is not installed: training with Opacus is not tested")
opacus = pytest.importorskip("opacus", reason="opacus is not installed: training with Opacus is not tested")

from torch import nn  # noqa: E402

import dapple.opacus  # noqa: E402
import dapple.torch  # noqa: E402

PLAN = dict(image=(24, 24), crop=(8, 8), patch=(4, 4), batch=6, records=30, epochs=2, noise_multiplier=1.1, delta=1e-5)


def small_cnn(norm=None):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), norm or nn.GroupNorm(2, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    )


def records():
    images = torch.rand(30, 3, 24, 24)
    return torch.utils.data.TensorDataset(images, torch.arange(30) % 2)


def private(module=None, dataset=None, plan=None, **options):
    module = module or small_cnn()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    options = {"max_grad_norm": 1.0, **options}
    return dapple.opacus.make_private(module, optimizer, dataset or records(), plan or dapple.Plan(**PLAN), **options)


def train(run, steps=None):
    for number, (images, labels) in enumerate(run.loader):
        if number == steps:
            break
        run.optimizer.zero_grad()
        nn.functional.cross_entropy(run.module(images), labels).backward()
        run.optimizer.step()


@pytest.mark.filterwarnings("ignore")
def test_a_small_cnn_trains_and_its_certificate_is_that_of_the_command_line(cli):
    plan = dapple.Plan(**PLAN)
    run = private(plan=plan)
    before = [parameter.clone() for parameter in run.module.parameters()]
    assert run.accountant.get_epsilon() == 0.0
    train(run)
    assert len(run.accountant) == 5
    half = run.accountant.get_epsilon()
    train(run)
    assert any(not torch.equal(old, new) for old, new in zip(before, run.module.parameters()))
    certificate = run.accountant.certificate()
    assert certificate == plan.account()
    assert certificate.to_dict() == cli.account(**PLAN)
    assert half < run.accountant.get_epsilon() == certificate.epsilon
    assert half == dapple.account(plan, steps=5).epsilon


@pytest.mark.filterwarnings("ignore")
def test_epsilons_of_every_relation():
    run = private()
    train(run)
    found = run.accountant.epsilons()
    assert list(found) == ["patch", "replace", "add-remove"]
    for relation, epsilon in found.items():
        assert epsilon == dapple.account(PLAN, steps=5, relation=relation).epsilon
    assert run.accountant.get_epsilon(1e-3) == dapple.account(PLAN, steps=5, delta=1e-3).epsilon
    without = private(plan=dapple.Plan(PLAN, sampling="without-replacement"))
    train(without)
    assert list(without.accountant.epsilons()) == ["patch", "replace"]


def test_the_update_is_the_one_that_is_priced():
    """Without noise to speak of, the step is the sum of clipped gradients over the expected batch."""
    plan = dapple.Plan(**{**PLAN, "noise_multiplier": 0.05, "sampling": "without-replacement"})
    module = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    copy = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    copy.load_state_dict(module.state_dict())
    run = private(module, plan=plan, max_grad_norm=0.01, seed=3)
    assert (run.optimizer.noise_multiplier, run.optimizer.expected_batch_size) == (0.05, 6)
    images, labels = next(iter(run.loader))
    assert len(images) == 6 and images.shape[1:] == (3, 8, 8)
    run.optimizer.zero_grad()
    nn.functional.cross_entropy(run.module(images), labels).backward()
    run.optimizer.step()
    total = [torch.zeros_like(parameter) for parameter in copy.parameters()]
    for image, label in zip(images, labels):
        copy.zero_grad()
        nn.functional.cross_entropy(copy(image[None]), label[None]).backward()
        norm = torch.cat([parameter.grad.flatten() for parameter in copy.parameters()]).norm()
        for place, parameter in zip(total, copy.parameters()):
            place += parameter.grad * min(1.0, 0.01 / (float(norm) + 1e-6))
    for place, old, new in zip(total, copy.parameters(), run.module.parameters()):
        # Eight numbers have noise of 0.05 * 0.01 / 6 * 0.1 each, and seven deviations are never seen.
        assert torch.allclose(new - old, -0.1 * place / 6, atol=7 * 0.1 * 0.05 * 0.01 / 6)


@pytest.mark.filterwarnings("ignore")
def test_empty_batches_are_steps():
    run = private(plan=dapple.Plan(**{**PLAN, "batch": 1, "steps": 60, "epochs": None}))
    train(run)
    assert len(run.accountant) == 30
    assert all(torch.isfinite(parameter).all() for parameter in run.module.parameters())


@pytest.mark.parametrize("layer", [nn.BatchNorm2d(8), nn.BatchNorm2d(8, track_running_stats=False).eval(), nn.SyncBatchNorm(8)])
def test_batch_norm_is_refused(layer):
    with pytest.raises(dapple.UnsoundPipelineError, match=r"1 \(\w*BatchNorm\w*\) mixes the examples") as caught:
        private(small_cnn(layer))
    assert "GroupNorm" in caught.value.hint


@pytest.mark.filterwarnings("ignore")
def test_frozen_batch_norm_trains_until_it_is_thawed():
    layer = nn.BatchNorm2d(8).eval().requires_grad_(False)
    run = private(small_cnn(layer))
    train(run, steps=2)
    run.module.train()
    with pytest.raises(dapple.UnsoundPipelineError, match="mixes the examples"):
        train(run)


def test_foreign_samplers_are_refused():
    loader = torch.utils.data.DataLoader(records(), batch_size=6, shuffle=True)
    with pytest.raises(dapple.UnsoundPipelineError, match="DataLoader has a sampler of its own"):
        private(dataset=loader)
    with pytest.raises(dapple.UnsoundPipelineError, match="shuffle is given"):
        private(shuffle=True)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(records())

    with pytest.raises(dapple.UnsoundPipelineError, match="stream of records"):
        private(dataset=Stream())


class RandomCropByLabel:
    """A crop that depends on the label."""

    def __call__(self, image):
        return image[..., :8, :8]


class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)


class Folder(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 30

    def __getitem__(self, index):
        return torch.rand(3, 24, 24), index % 2


def test_other_crops_are_refused():
    dataset = Folder(Compose(object(), RandomCropByLabel()))
    place = r"dataset.transform.transforms\[1\] \(RandomCropByLabel\) crops before the crop that is priced"
    with pytest.raises(dapple.UnsoundPipelineError, match=place):
        private(dataset=dataset)
    with pytest.raises(dapple.UnsoundPipelineError, match="RandomCropByLabel"):
        private(dataset=torch.utils.data.Subset(dataset, range(30)))
    # A crop that hides in the data set gives images of another size.
    small = torch.utils.data.TensorDataset(torch.rand(30, 3, 8, 8), torch.zeros(30, dtype=int))
    run = private(dataset=small)
    with pytest.raises(dapple.UnsoundPipelineError, match="an image of 8x8 reaches the crop"):
        for _ in range(2):
            train(run)
    # At record level the price counts no crop, so any preparation is fine.
    record = {name: value for name, value in PLAN.items() if name not in ("image", "crop", "patch")}
    private(dataset=dataset, plan=dapple.Plan(**record))


def test_crops_of_another_plan_are_refused():
    other = dapple.torch.UniformCrop(dapple.Plan(PLAN, crop=(12, 12)))
    with pytest.raises(dapple.UnsoundPipelineError, match="another plan"):
        private(dataset=dapple.torch.CroppedDataset(records(), other))
    own = dapple.torch.UniformCrop(dapple.Plan(**PLAN))
    private(dataset=dapple.torch.CroppedDataset(records(), own))


@pytest.mark.parametrize("change", [dict(views=2), dict(pixel_noise=2.0), dict(records_per_clip=2), dict(relation="masked"), dict(relation="user"), dict(submodels=2, relation="add-remove"), dict(bands=2)])
def test_plans_that_opacus_cannot_carry_out(change):
    with pytest.raises(dapple.PlanError, match="Opacus cannot carry out") as caught:
        private(plan=dapple.Plan(PLAN, **change))
    assert caught.value.hint


@pytest.mark.filterwarnings("ignore")
def test_optimisers_that_are_not_one_step_of_the_module_are_refused():
    module, plan = small_cnn(), dapple.Plan(**PLAN)

    def refused(optimizer, words):
        with pytest.raises(dapple.UnsoundPipelineError, match=words) as caught:
            dapple.opacus.make_private(module, optimizer, records(), plan, max_grad_norm=1.0)
        assert caught.value.hint

    refused(torch.optim.SGD(small_cnn().parameters(), lr=0.1), "not the module's")
    refused(torch.optim.LBFGS(module.parameters()), "several times a step")
    refused(private().optimizer, "adds noise already")
    moved = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    module(records()[0][0][None, :, :16, :16]).sum().backward()
    moved.step()
    refused(moved, "has taken steps")
    # Part of a module may train.
    last = list(module.parameters())[-2:]
    dapple.opacus.make_private(module, torch.optim.SGD(last, lr=0.1), records(), plan, max_grad_norm=1.0)


def test_the_clip_norm_is_given_once():
    with pytest.raises(dapple.PlanError, match="privacy.max_grad_norm is missing"):
        private(max_grad_norm=None)
    with pytest.raises(dapple.PlanError, match="max_grad_norm=2.0, but the plan says 1.5"):
        private(plan=dapple.Plan(PLAN, max_grad_norm=1.5), max_grad_norm=2.0)
    assert private(plan=dapple.Plan(PLAN, max_grad_norm=1.5), max_grad_norm=None).optimizer.max_grad_norm == 1.5


def test_steps_that_the_plan_does_not_have():
    accountant = dapple.opacus.PlanAccountant(dapple.Plan(**PLAN))
    for _ in range(10):
        accountant.step(noise_multiplier=1.1, sample_rate=0.2)
    with pytest.raises(dapple.UnsoundPipelineError, match="step 11 of a plan of 10"):
        accountant.step(noise_multiplier=1.1, sample_rate=0.2)
    other = dapple.opacus.PlanAccountant(dapple.Plan(**PLAN))
    with pytest.raises(dapple.UnsoundPipelineError, match="noise multiplier 1.0"):
        other.step(noise_multiplier=1.0, sample_rate=0.2)
    with pytest.raises(dapple.UnsoundPipelineError, match="sample rate 0.4"):
        other.step(noise_multiplier=1.1, sample_rate=0.4)


def test_balanced_parts_are_whole_epochs():
    values = dict(batch=6, records=30, epochs=3, sampling="balanced", noise_multiplier=2.0, delta=1e-5)
    accountant = dapple.opacus.PlanAccountant(dapple.Plan(**values))
    for _ in range(7):
        accountant.step(noise_multiplier=2.0, sample_rate=accountant.plan.sample_rate)
    assert accountant.get_epsilon() == dapple.account(**{**values, "epochs": 2}).epsilon


def test_states_belong_to_a_plan():
    accountant = dapple.opacus.PlanAccountant(dapple.Plan(**PLAN))
    accountant.step(noise_multiplier=1.1, sample_rate=0.2)
    state = accountant.state_dict()
    again = dapple.opacus.PlanAccountant(dapple.Plan(**PLAN))
    again.load_state_dict(json.loads(json.dumps(state)))
    assert len(again) == 1 and again.get_epsilon() == accountant.get_epsilon()
    with pytest.raises(dapple.PlanError, match="another plan"):
        dapple.opacus.PlanAccountant(dapple.Plan(PLAN, batch=7)).load_state_dict(state)


def test_the_registry_knows_us():
    from opacus.accountants import create_accountant
    from opacus.accountants.utils import get_noise_multiplier

    accountant = create_accountant("dapple")
    for noise, rate, steps in [(1.0, 0.01, 30), (0.8, 0.01, 20), (1.0, 0.02, 5)]:
        for _ in range(steps):
            accountant.step(noise_multiplier=noise, sample_rate=rate)
    assert len(accountant) == 55 and len(accountant.history) == 3
    step = dapple.Pld.poisson_gaussian
    parts = step(0.01, 1.0).self_compose(30).compose(step(0.01, 0.8).self_compose(20)).compose(step(0.02, 1.0).self_compose(5))
    assert accountant.get_epsilon(1e-5) == parts.epsilon(1e-5)
    again = create_accountant("dapple")
    again.load_state_dict(accountant.state_dict())
    assert again.get_epsilon(delta=1e-5) == accountant.get_epsilon(delta=1e-5)
    assert create_accountant("dapple").get_epsilon(1e-5) == 0.0
    # Opacus' own search works with it, and its answer is ours.
    noise = get_noise_multiplier(target_epsilon=3.0, target_delta=1e-5, sample_rate=0.01, steps=500, accountant="dapple")
    found = dapple.calibrate("noise_multiplier", epsilon=3, batch=10, records=1000, steps=500, delta=1e-5)
    # It stops within 0.01 of the target epsilon.
    assert found.value * (1 - 1e-4) <= noise <= 1.02 * found.value
    assert opacus.PrivacyEngine(accountant="dapple").accountant.mechanism() == "dapple"
