//! Accuracy where a model sees one random crop of an image, as it does in training.

use std::path::Path;

use dapple_engine::{CpuExecutor, CpuOptions};
use dapple_graph::zoo::{self, Norm, ResNet, Vgg};
use dapple_graph::{Graph, GraphError, weights};
use dapple_plan::{DataPlan, Plan};
use dapple_train::data::{Dataset, MasterKey, Purpose, Views, open};
use dapple_train::{TrainError, plan_of_run};

use crate::error::{ReproduceError, Result};
use crate::options::Classifier;

/// Images that are looked at together.
const TOGETHER: usize = 250;

/// The accuracy of a finished run without norms on one crop of each test image. Crops are drawn from the distribution of training,
/// the same ones at every call.
pub(super) fn accuracy(model: Classifier, folder: &Path) -> Result<f64> {
    let spec = plan_of_run(folder)?;
    let plan = Plan::check(&spec)?;
    let data_plan = DataPlan::check(&spec).map_err(TrainError::from)?;
    let data = open(&data_plan, Path::new("")).map_err(TrainError::from)?;
    let Some(test) = data.test else { return Err(ReproduceError::failed("there are no test images")) };
    let views = Views::new(plan.spatial(), &data_plan.views, &*test).map_err(TrainError::from)?;
    let graph = graph(model, &views.shape(), test.classes() as usize).map_err(TrainError::from)?;
    let right = count(&graph, &folder.join("model.safetensors"), &*test, &views)?;
    Ok(right as f64 / test.len() as f64)
}

fn graph(model: Classifier, shape: &[usize], classes: usize) -> std::result::Result<Graph, GraphError> {
    match model {
        Classifier::Resnet18 => zoo::resnet(ResNet::R18, shape, classes, Norm::Removed),
        Classifier::Vgg11 => zoo::vgg(Vgg::V11, shape, classes, Norm::Removed),
    }
}

/// Images whose class is the likeliest one.
fn count(
    graph: &Graph,
    weights: &Path,
    test: &dyn Dataset,
    views: &Views,
) -> std::result::Result<usize, TrainError> {
    let parameters = weights::load(graph, weights)?;
    let mut executor = CpuExecutor::new(graph, CpuOptions::default())?;
    let mut loaded = executor.load(&parameters)?;
    let key = MasterKey::from_seed(0).purpose(Purpose::Views).step(0);
    let mut right = 0;
    let records: Vec<usize> = (0..test.len()).collect();
    for records in records.chunks(TOGETHER) {
        // [records, channels, height, width]
        let mut inputs = vec![0.0; records.len() * views.view_length()];
        for (&record, view) in records.iter().zip(inputs.chunks_exact_mut(views.view_length())) {
            views.draw(&test.read(record)?, &mut key.stream(record as u64), view)?;
        }
        // [records, classes]
        let outputs = loaded.forward(&inputs)?;
        for (&record, outputs) in records.iter().zip(outputs.chunks_exact(test.classes() as usize)) {
            let best = (0..outputs.len())
                .fold(0, |best, class| if outputs[class] > outputs[best] { class } else { best });
            right += usize::from(best as u32 == test.label(record)?);
        }
    }
    Ok(right)
}
