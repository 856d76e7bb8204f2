//! Tests steps on private and public parts of images: neither part tells of the other, and a step is the sum of both by hand.

use dapple_data::{
    Labels, Loader, LoaderKeys, LoaderOptions, MasterKey, Purpose, RecordPart, Sampler, SamplerKeys,
};
use dapple_engine::{Batch, CpuExecutor, CpuOptions, Targets};

use super::*;
use crate::prepare::Request;
use crate::test_data as common;

const CLIP: f64 = 0.7;
const BATCH: u64 = 6;
const SIDE: usize = 16;

/// A plan on pictures, or on clips if it names frames, of which private and public pixels show what these numbers say.
fn request(folder: &std::path::Path, numbers: (usize, usize), rest: &str) -> Request {
    let format = match rest.contains("frames = ") {
        true => {
            common::write_parted_clips(folder, 12, SIDE, numbers);
            "clip-folder"
        }
        false => {
            common::write_parted(folder, 12, SIDE, numbers);
            "image-folder"
        }
    };
    let train = folder.join("train").display().to_string();
    let masks = folder.join("masks").display().to_string();
    let text = format!(
        "[data]\nformat = '{format}'\ntrain = '{train}'\nmasks = '{masks}'\nmean = [0.4]\nstd = [0.25]\nDATA\n\
         [optimiser]\nlearning_rate = 1.0\n[sampling]\nbatch = {BATCH}\nsteps = 2\n\
         [privacy]\nrelation = 'masked'\nmax_grad_norm = {CLIP}\nnoise_multiplier = 1.0\ndelta = 1e-5\n[performance]\nthreads = 2\n"
    );
    let (data, rest) = rest.split_once("----").unwrap_or(("", rest));
    let size = if data.contains("size") { "" } else { "size = [16, 16]\n" };
    Request::of(
        dapple_plan::PlanSpec::from_toml(&(text.replace("DATA", &format!("{size}{data}")) + rest)).unwrap(),
    )
}

fn prepared(folder: &std::path::Path, numbers: (usize, usize), rest: &str) -> Prepared {
    Prepared::new(&request(folder, numbers, rest)).unwrap()
}

/// What the first step loads of a part.
fn loader(prepared: &Prepared, part: RecordPart, (sampling, views): (Purpose, Purpose)) -> Loader {
    let master = MasterKey::from_seed(3);
    let train = prepared.data.train.clone();
    let shown = prepared.masked.as_ref().unwrap().views(&prepared.views, part).unwrap();
    let sampler = Sampler::new(
        prepared.plan(),
        train.len(),
        SamplerKeys { draws: master.purpose(sampling), ..SamplerKeys::of(&master) },
    )
    .unwrap();
    let keys = LoaderKeys { views: master.purpose(views), ..LoaderKeys::of(&master) };
    let options = LoaderOptions { microbatch: 5, ..LoaderOptions::default() };
    Loader::train(train, sampler, shown, keys, 0..2, options).unwrap()
}

const OWN: (Purpose, Purpose) = (Purpose::Sampling, Purpose::Views);
const OTHER: (Purpose, Purpose) = (Purpose::PublicSampling, Purpose::PublicViews);

/// The sum of the gradients of the first step's records, of one part of each.
fn gradient(
    prepared: &Prepared,
    part: RecordPart,
    keys: (Purpose, Purpose),
    clipping: &Clipping,
) -> Vec<f32> {
    let graph = prepared.masked.as_ref().unwrap().graphs().map_or(&prepared.graphs[0], |graphs| &graphs[0]);
    let options = CpuOptions { threads: 2, ..CpuOptions::default() };
    let mut executor = CpuExecutor::new(graph, options).unwrap();
    let rule = ClippingRule::new(clipping, executor.layout()).unwrap();
    let mut sum = executor.gradient_sum();
    let mut loaded = executor.load(&prepared.parameters).unwrap();
    for microbatch in loader(prepared, part, keys).map(Result::unwrap).take_while(|one| one.step == 0) {
        let Labels::Classes(classes) = &microbatch.labels else { panic!("classes") };
        let views = microbatch.views;
        let batch = Batch { views, ..Batch::new(&microbatch.inputs, Targets::Classes(classes)) };
        loaded.clipped_sum(&batch, &rule, &mut sum).unwrap();
    }
    loaded.gradient(sum).unwrap()
}

/// Models with their ways to see a part, with padding, crops, resizing, mirroring and augmentations.
const MODELS: [&str; 13] = [
    "flip = true\naugment = ['affine degrees=20 translate=0.1', 'sharpness 0:2']----\
     [model]\nname = 'vit-ti-8'\n[pipeline]\nviews = 2\npad = 3\npad_mode = 'reflect'\ncrop = [16, 16]\n",
    "size = [24, 16]\naugment = ['colour-jitter brightness=0.4 saturation=0.2 hue=0.1', 'cutout 4x4']----\
     [model]\nname = 'vit-ti-8'\npooling = 'mean'\n[pipeline]\ncrop = [11, 13]\n",
    "flip = true\naugment = ['rand-augment 2 9', 'equalize p=0.5']----\
     [model]\nname = 'small-hybrid'\n[pipeline]\npad = 2\ncrop = [16, 16]\n",
    "size = [28, 28]\n----[model]\nname = 'small-cnn'\n[masked]\npass = 'blank'\n[pipeline]\noperations = ['blur 1']\n",
    "----[model]\nname = 'vit-ti-8'\n[masked]\npass = 'blank'\n",
    "frames = 4\nflip = true\naugment = ['colour-jitter brightness=0.4 contrast=0.3 saturation=0.2', 'rand-augment 2 9']----\
     [model]\nname = 'small-clip'\n[pipeline]\npad = 2\npad_mode = 'wrap'\nviews = 2\ncrop = [13, 12]\n",
    "frames = 2\nflip = true\nsize = [32, 32]\naugment = ['affine degrees=20', 'equalize p=0.5']----\
     [model]\nname = 'mvit-v2-s'\n[masked]\npass = 'blank'\n[pipeline]\ncrop = [13, 13]\n",
    "frames = 2\nflip = true\nsize = [32, 32]\naugment = ['affine degrees=20']----\
     [model]\nname = 'mvit-v2-s'\n[masked]\npass = 'tokens'\n[pipeline]\npad = 2\ncrop = [13, 13]\n",
    "size = [48, 32]\naugment = ['affine degrees=20', 'rand-augment 2 9']----\
     [model]\nname = 'resnet-18'\n[masked]\npass = 'pooled'\n[pipeline]\npad = 2\ncrop = [13, 13]\n",
    "frames = 4\nflip = true\n----[model]\nname = 'small-clip'\n[masked]\npass = 'blank'\n[pipeline]\ncrop = [13, 12]\n",
    "flip = true\nsize = [32, 32]\naugment = ['blur 2 1', 'equalize p=0.5']----\
     [model]\nname = 'convnext-t'\n[pipeline]\npad = 3\npad_mode = 'replicate'\ncrop = [16, 16]\n",
    "size = [32, 32]\naugment = ['affine degrees=20']----[model]\nname = 'mobilenet-v2'\n[pipeline]\ncrop_scale = [0.3, 1.0]\n",
    "augment = ['noise 0:0.1', 'posterize 3']----[model]\nname = 'wrn-16-4'\n[masked]\npass = 'blank'\n[pipeline]\npad = 2\ncrop = [16, 16]\n",
];

#[test]
fn neither_part_changes_a_bit_of_the_other_gradient() {
    for model in MODELS {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let numbers = [(1, 2), (3, 2), (1, 4)];
        let of = |index: usize| prepared(folders[index].path(), numbers[index], model);
        let [one, other_private, other_public] = [0, 1, 2].map(of);
        for clipping in [Clipping::Off, Clipping::Flat { max_norm: CLIP }] {
            let gradient = |prepared: &Prepared, part| {
                let values = gradient(prepared, part, OWN, &clipping);
                values.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let [private, public] =
                [RecordPart::Private, RecordPart::Public].map(|part| gradient(&one, part));
            assert_eq!(public, gradient(&other_private, RecordPart::Public), "{model}");
            assert_eq!(private, gradient(&other_public, RecordPart::Private), "{model}");
            // Both parts say something, and something else if they show something else.
            assert_ne!(private, gradient(&other_private, RecordPart::Private), "{model}");
            assert_ne!(public, gradient(&other_public, RecordPart::Public), "{model}");
        }
    }
}

/// By how much one step without noise moves the parameters.
fn moved(prepared: &Prepared, public: (Purpose, Purpose)) -> Vec<f32> {
    let mut trainer = Trainer::new(prepared, &mut Vec::new()).unwrap();
    trainer.parts.iter_mut().for_each(|part| part.noise = None);
    let master = MasterKey::from_seed(3);
    let mut private = loader(prepared, RecordPart::Private, OWN);
    let mut public = loader(prepared, RecordPart::Public, public);
    trainer.step(&mut private, Some(&mut public), &StepKeys::of(&master), 0).unwrap();
    let after = trainer.weights().unwrap().values().to_vec();
    prepared.parameters.values().iter().zip(after).map(|(before, after)| before - after).collect()
}

#[test]
fn a_step_is_the_sum_of_both_parts() {
    let flat = |max_norm| Clipping::Flat { max_norm };
    let modes = [
        ("", OTHER, Clipping::Off, 1.0),
        ("[masked]\npublic_weight = 0.25\n", OTHER, Clipping::Off, 0.25),
        ("[masked]\npublic_gradient = 'coupled'\n", OWN, Clipping::Off, 1.0),
        ("[masked]\npublic_gradient = 'coupled-clipped'\npublic_clip = 3.0\n", OWN, flat(3.0 * CLIP), 1.0),
        ("[masked]\npublic_gradient = 'coupled-clipped'\npublic_clip = 0.01\n", OWN, flat(0.01 * CLIP), 1.0),
    ];
    for (mode, keys, clipping, weight) in modes {
        let folder = tempfile::tempdir().unwrap();
        let prepared = prepared(folder.path(), (1, 2), &format!("[model]\nname = 'vit-ti-8'\n{mode}"));
        let private = gradient(&prepared, RecordPart::Private, OWN, &flat(CLIP));
        let public = gradient(&prepared, RecordPart::Public, keys, &clipping);
        let moved = moved(&prepared, keys);
        let largest = moved.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        for ((private, public), moved) in private.iter().zip(&public).zip(&moved) {
            let want = (private + weight * public) / BATCH as f32;
            assert!((want - moved).abs() <= 2e-6 * largest.max(1.0), "{mode}: {want} and {moved}");
        }
        assert!(public.iter().any(|value| *value != 0.0) && private.iter().any(|value| *value != 0.0));
    }
}

/// Views of 16x8 and of 8x16 with the shares of their tokens are equally long, and each phase still has a model for its own.
#[test]
fn each_phase_sees_its_own_views() {
    let folder = tempfile::tempdir().unwrap();
    let phases = "# Views have the size of the crop.\n----[model]\nname = 'vit-ti-8'\n\
        [[phases]]\nsteps = 1\ncrop = [16, 8]\n[[phases]]\nsteps = 1\ncrop = [8, 16]\n";
    let mut request = request(folder.path(), (1, 2), phases);
    request.spec.sampling.steps = None;
    let prepared = Prepared::new(&request).unwrap();
    let own = &prepared.masked.as_ref().unwrap().graphs().unwrap()[1];
    let mut trainer = Trainer::new(&prepared, &mut Vec::new()).unwrap();
    let sample: Vec<f32> = (0..own.input_shape()[0]).map(|at| (at % 17) as f32 / 17.0).collect();
    let options = CpuOptions { threads: 1, ..CpuOptions::default() };
    let want =
        CpuExecutor::new(own, options).unwrap().load(&prepared.parameters).unwrap().forward(&sample).unwrap();
    trainer.enter(1).unwrap();
    let got = trainer.executor.load(&prepared.parameters).unwrap().forward(&sample).unwrap();
    assert_eq!(got, want);
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    for (rest, key) in [
        ("----[model]\nname = 'small-cnn'\n[masked]\npass = 'tokens'\n", "masked.pass"),
        ("augment = ['equalize']\n----[model]\nname = 'vit-ti-8'\n", "data.augment"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let error = Prepared::new(&request(folder.path(), (1, 2), rest)).err().unwrap();
        assert!(error.to_string().contains(key) && error.hint().is_some(), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut request = request(folder.path(), (1, 2), "[model]\nname = 'vit-ti-8'\n");
    request.spec.performance.device = Some(dapple_plan::spec::DeviceChoice::Cuda(0));
    let error = Trainer::new(&Prepared::new(&request).unwrap(), &mut Vec::new()).err().unwrap();
    assert!(error.to_string().starts_with("performance.device: private and public parts"), "{error}");
    std::fs::remove_file(folder.path().join("masks/0/000.json")).unwrap();
    let error = Prepared::new(&request).err().unwrap();
    assert!(error.to_string().contains("no mask named"), "{error}");
}
