//! What a model is said to be worth, on processor and card.

use std::path::Path;

use dapple_data::open;
use dapple_plan::PlanSpec;
use dapple_plan::spec::EvaluationKind;
use dapple_train::{Evaluation, Look, Prediction, Predictor, Request, Silent, evaluate_with, start};

use crate::common::write_data;
use crate::{Fault, cpu, expect, gpu, plan};

/// Scores of the two agree to a ten-thousandth of the largest, as `cuda_check` holds them to, so a pixel is called otherwise only where
/// its two likeliest classes are that near: fewer than one in a thousand, unless scores crowd there.
const OTHERWISE: f64 = 1e-3;
/// A class may be so rare that such pixels are more of it.
const MEAN_IOU: f64 = 5e-3;
/// Scores of a ten-thousandth apart, over the pixels of all images.
const LOSS: f64 = 1e-3;

pub(crate) fn check(folder: &Path) -> Result<(), Fault> {
    classes(folder)?;
    for (model, steps) in [("small-fcn", 30), ("deeplab-v3-plus-resnet-18", 4)] {
        maps(folder, model, steps)?;
    }
    Ok(())
}

/// A class an image.
fn classes(folder: &Path) -> Result<(), Fault> {
    let mut request = plan(folder, "small-cnn", "learning_rate = 0.05\nmomentum = 0.9", &cpu());
    write_data(folder, "test", 200, 28);
    request.spec.data.test = Some("test.npy".to_owned());
    request.spec.data.test_labels = Some("test-labels.npy".to_owned());
    let out = folder.join("classes");
    start(&request, &out, &mut Silent)?;
    agree("small-cnn", &out, Look::default())
}

/// A class a pixel: images seen at once and window by window, and label maps as `dapple predict` writes them.
fn maps(folder: &Path, model: &str, steps: u32) -> Result<(), Fault> {
    let text = format!(
        "[data]\nformat = 'street-scenes'\nmean = [0.5]\nstd = [0.25]\n[model]\nname = '{model}'\n\
         [optimiser]\nlearning_rate = 0.1\n[privacy]\nnoise_multiplier = 0.5\ndelta = 1e-3\n[region]\npatch = [8, 8]\n\
         [pipeline]\ncrop = [64, 48]\n[train]\nseed = 3\n[sampling]\nbatch = 12\nsteps = {steps}\n\
         [performance]\ndevice = 'cpu'\n"
    );
    let out = folder.join(model);
    let request = Request { spec: PlanSpec::from_toml(&text)?, base: folder.to_owned(), masks: Vec::new() };
    start(&request, &out, &mut Silent)?;
    for kind in [EvaluationKind::Whole, EvaluationKind::Sliding] {
        let look = Look { kind: Some(kind), ..Look::default() };
        agree(&format!("{model}, {kind:?}"), &out, look)?;
        let mut predictors = [Predictor::open(&out, look, &cpu())?, Predictor::open(&out, look, &gpu())?];
        let test = open(predictors[0].spec(), Path::new(""))?.test.ok_or("streets to test on")?;
        let (mut pixels, mut otherwise) = (0, 0);
        for record in (0..test.len()).step_by(10) {
            let image = test.read(record)?;
            let [on_cpu, on_card] = &mut predictors;
            let maps = (on_cpu.predict(&image, "street")?, on_card.predict(&image, "street")?);
            let (Prediction::Map(on_cpu), Prediction::Map(on_card)) = maps else {
                return Err("a model of streets names no map".into());
            };
            pixels += on_cpu.labels().len();
            otherwise +=
                on_cpu.labels().iter().zip(on_card.labels()).filter(|(one, other)| one != other).count();
        }
        println!(
            "{model}, {kind:?}: {otherwise} of {pixels} predicted pixels are of another class on the card"
        );
        expect((otherwise as f64) < OTHERWISE * pixels as f64, || {
            format!("{model}: {otherwise} of {pixels} pixels are predicted otherwise")
        })?;
    }
    Ok(())
}

/// Whether processor and card score a model alike.
fn agree(name: &str, out: &Path, look: Look) -> Result<(), Fault> {
    let (cpu, card) = (evaluate_with(out, look, &cpu())?, evaluate_with(out, look, &gpu())?);
    let apart = |of: fn(&Evaluation) -> f64| (of(&cpu) - of(&card)).abs();
    let (accuracy, score) = (apart(|own| own.accuracy), apart(|own| own.score().value));
    let loss = apart(|own| own.loss) / cpu.loss;
    println!(
        "{name}: {} {:.4}, on the card {score:.1e} apart; loss {:.4}, {loss:.1e} apart",
        cpu.score().measure.words(),
        cpu.score().value,
        cpu.loss
    );
    // Of 512 records one may be as near as a pixel.
    let otherwise = OTHERWISE.max(1.5 / cpu.confusion.iter().flatten().sum::<u64>() as f64);
    expect(accuracy < otherwise && score < MEAN_IOU && loss < LOSS, || {
        format!("{name}: accuracy {accuracy:.1e}, score {score:.1e}, loss {loss:.1e} apart")
    })
}
