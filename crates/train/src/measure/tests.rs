//! Tests distances against numpy, scipy and closed forms, and features against the model that they come from.

use std::fs::{self, File};

use dapple_graph::weights;
use dapple_private::{Executor, Processor};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Goldens {
    cases: Vec<GoldenDistances>,
}

#[derive(Deserialize)]
struct GoldenDistances {
    name: String,
    length: usize,
    features: [Vec<f32>; 2],
    frechet: f64,
    kernel: Option<f64>,
}

#[test]
fn distances_are_those_of_numpy_and_scipy() {
    let goldens: Goldens = serde_json::from_str(include_str!("../../tests/goldens/distances.json")).unwrap();
    for GoldenDistances { name, length, features, frechet, kernel } in goldens.cases {
        let [one, other] = features.map(|values| FeatureSet::new(length, values).unwrap());
        let found = frechet_distance(&one, &other).unwrap();
        // A root of the covariances' product loses about half of the digits in directions that nearly vanish; there are none in these.
        assert!((found / frechet - 1.0).abs() < 1e-9, "{name}: {found} {frechet}");
        if let Some(kernel) = kernel {
            let found = kernel_distance(&one, &other, Some(one.count())).unwrap();
            assert_eq!((found.blocks, found.standard_error), (1, None));
            // Far from zero, values of 1e18 cancel down to 5e12.
            assert!((found.value / kernel - 1.0).abs() < 1e-8, "{name}: {found:?} {kernel}");
        }
    }
}

/// Features `mean + a_i e_i` and `mean - a_i e_i` for each axis have the diagonal covariance `2 a_i^2 / (n - 1)` and that mean.
fn axes(mean: &[f32], spreads: &[f32]) -> FeatureSet {
    let mut values = Vec::new();
    for (axis, &spread) in spreads.iter().enumerate() {
        for sign in [1.0, -1.0] {
            let mut row = mean.to_vec();
            row[axis] += sign * spread;
            values.extend(row);
        }
    }
    FeatureSet::new(mean.len(), values).unwrap()
}

proptest! {
    /// Between Gaussians along the axes, the distance is that of the means and of the standard deviations. Some spreads are 0.
    #[test]
    fn gaussians_along_the_axes_have_a_closed_form(
        sets in prop::collection::vec([-8i32..8, 0..5, -8..8, 0..5], 1..40),
    ) {
        let [mean, spread, other_mean, other_spread] =
            [0, 1, 2, 3].map(|number| sets.iter().map(|set| set[number] as f32).collect::<Vec<f32>>());
        let scale = (2.0 / (2.0 * sets.len() as f64 - 1.0)).sqrt();
        let squared = |one: &[f32], other: &[f32], scale: f64| -> f64 {
            one.iter().zip(other).map(|(a, b)| (scale * f64::from(a - b)).powi(2)).sum()
        };
        let expected = squared(&mean, &other_mean, 1.0) + squared(&spread, &other_spread, scale);
        let (one, other) = (axes(&mean, &spread), axes(&other_mean, &other_spread));
        let found = frechet_distance(&one, &other).unwrap();
        // Forty roundings of traces up to 40.
        prop_assert!((found - expected).abs() < 1e-11, "{found} {expected}");
        prop_assert!((frechet_distance(&other, &one).unwrap() - expected).abs() < 1e-11);
        prop_assert!(frechet_distance(&one, &one).unwrap() < 1e-11);
    }
}

/// Copies of features, scaled so that lengths stay, change no distance. Here they leave far more features than pictures, and nothing but
/// rounding in most directions, many times over.
#[test]
fn copies_of_features_change_no_distance() {
    let mut random =
        dapple_data::MasterKey::from_seed(5).purpose(dapple_data::Purpose::Split).step(0).stream(0);
    let mut set = |count: usize| -> Vec<f32> {
        (0..4 * count).map(|_| dapple_data::uniform::unit(&mut random) as f32).collect()
    };
    let (one, other) = (set(30), set(130));
    let copied = |values: &[f32]| {
        let rows = values.chunks_exact(4).flat_map(|row| (0..256).map(|number| row[number / 64] / 8.0));
        FeatureSet::new(256, rows.collect()).unwrap()
    };
    let expected = frechet_distance(
        &FeatureSet::new(4, one.clone()).unwrap(),
        &FeatureSet::new(4, other.clone()).unwrap(),
    );
    let found = frechet_distance(&copied(&one), &copied(&other)).unwrap();
    // A few hundred roundings of traces near 1.
    assert!((found - expected.unwrap()).abs() < 1e-12, "{found}");
}

/// Blocks share no picture, and their mean is the distance, with an error that shrinks with their number.
#[test]
fn blocks_of_the_kernel_distance_tell_its_error() {
    let mut random =
        dapple_data::MasterKey::from_seed(3).purpose(dapple_data::Purpose::Split).step(0).stream(0);
    let mut set = |shift: f32| {
        let values = (0..4000).map(|_| dapple_data::uniform::unit(&mut random) as f32 + shift).collect();
        FeatureSet::new(4, values).unwrap()
    };
    let (one, same, other) = (set(0.0), set(0.0), set(0.2));
    let alike = kernel_distance(&one, &same, None).unwrap();
    assert_eq!((alike.blocks, alike.block), (10, 100));
    let error = alike.standard_error.unwrap();
    // Six standard errors of ten blocks: less than one correct program in a thousand fails, and the seed is fixed.
    assert!(alike.value.abs() < 6.0 * error, "{alike:?}");
    let apart = kernel_distance(&one, &other, None).unwrap();
    assert!(apart.value > 6.0 * apart.standard_error.unwrap(), "{apart:?}");
    let finer = kernel_distance(&one, &other, Some(2)).unwrap();
    assert_eq!((finer.blocks, finer.block), (500, 2));
    for wrong in [0, 1, 1001] {
        assert!(kernel_distance(&one, &other, Some(wrong)).is_err());
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let set = |length, count: usize| FeatureSet::new(length, vec![1.0; length * count]).unwrap();
    assert!(frechet_distance(&set(2, 3), &set(3, 3)).is_err());
    assert!(frechet_distance(&set(2, 1), &set(2, 3)).is_err());
    assert!(kernel_distance(&set(2, 3), &set(2, 1), None).is_err());
    assert!(FeatureSet::new(2, vec![1.0, f32::NAN]).is_err());
    assert!(FeatureSet::new(2, vec![1.0; 3]).is_err());
}

fn picture(path: &Path, side: u32, shade: u8) {
    let mut encoder = png::Encoder::new(File::create(path).unwrap(), side, side);
    encoder.set_color(png::ColorType::Rgb);
    let pixels: Vec<u8> = (0..3 * side * side).map(|value| (value * value % 31) as u8 + shade).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
}

/// The last layer, carried out on the features, says what the whole model says about the pictures.
#[test]
fn features_are_what_the_last_layer_reads() {
    let folder = tempfile::tempdir().unwrap();
    let (file, pictures) = (folder.path().join("w.safetensors"), folder.path().join("pictures"));
    fs::create_dir_all(pictures.join("deeper")).unwrap();
    picture(&pictures.join("a.png"), 32, 7);
    picture(&pictures.join("deeper/b.png"), 40, 90);
    let spec = ModelSpec { name: Some("small-cnn".to_owned()), ..ModelSpec::default() };
    let plan = ModelPlan::check(&spec).unwrap();
    let graph = Blueprint::unread(&plan).build(&[3, 32, 32], 7, 0.0).unwrap();
    let parameters = Parameters::init(&graph, 5);
    weights::save(&graph, &parameters, &file).unwrap();
    let shown =
        ViewPlan { size: Some(Pixels { x: 32, y: 32 }), mean: Some(vec![0.5]), ..ViewPlan::default() };
    let extractor = FeatureExtractor::open("small-cnn", &file, &shown, 1).unwrap();
    let features = extractor.features(&pictures).unwrap();
    assert_eq!((features.count(), features.length), (2, extractor.length()));

    let mut views = Vec::new();
    for name in ["a.png", "deeper/b.png"] {
        let image = dapple_data::formats::read_picture(&pictures.join(name), &DataLimits::default()).unwrap();
        let mut view = vec![0.0; 3 * 32 * 32];
        extractor.views.evaluate(&image, 1, &mut view).unwrap();
        views.extend(view);
    }
    let mut processor = Processor::new(&graph, 1).unwrap();
    let said = processor.load(&parameters).unwrap().forward(&views).unwrap();
    let get = |name: &str| parameters.get(graph.find_parameter(name).unwrap());
    let (weight, bias) = (get("fc2.weight"), get("fc2.bias"));
    for (row, said) in features.rows().zip(said.chunks_exact(7)) {
        for ((weights, bias), said) in weight.chunks_exact(row.len()).zip(bias).zip(said) {
            let expected: f32 = weights.iter().zip(row).map(|(a, b)| a * b).sum::<f32>() + bias;
            // A sum of a few dozen products near 1 in single precision.
            assert!((said - expected).abs() < 1e-4, "{said} {expected}");
        }
    }
}

#[test]
fn models_without_features_and_wrong_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.safetensors");
    let open = |name: &str, file: &Path| FeatureExtractor::open(name, file, &ViewPlan::default(), 1);
    let refused = |name: &str, file: &Path| open(name, file).unwrap_err().to_string();
    assert!(refused("small-cnn", &file).contains("w.safetensors"));
    let spec = ModelSpec { name: Some("linear".to_owned()), ..ModelSpec::default() };
    let graph = Blueprint::unread(&ModelPlan::check(&spec).unwrap()).build(&[3, 28, 28], 7, 0.0).unwrap();
    weights::save(&graph, &Parameters::init(&graph, 5), &file).unwrap();
    assert!(refused("linear", &file).contains("no features"));
    assert!(refused("resnet-18", &file).contains("do not match"));
    assert!(refused("sparkle", &file).contains("no model"));
    fs::write(&file, b"rubbish").unwrap();
    assert!(refused("small-cnn", &file).contains("w.safetensors"));
}
