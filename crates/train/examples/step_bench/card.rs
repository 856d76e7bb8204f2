//! Measures how long a whole step takes on a card, beside the executor alone.

use std::ops::ControlFlow;
use std::time::Instant;

use dapple_engine::cuda::{CudaExecutor, CudaOptions, Precision};
use dapple_engine::{Batch, Clipping, ClippingRule, Targets};
use dapple_graph::{Graph, Parameters};
use dapple_plan::spec::{DeviceChoice, FactorPrecision, Performance};
use dapple_train::{Event, Observer, start};

use crate::common::request;
use crate::{graph, write_data};

/// When each step ended, and how many records it drew.
#[derive(Default)]
struct Clock(Vec<(Instant, usize)>);

impl Observer for Clock {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if let Event::Step(report) = event {
            self.0.push((Instant::now(), report.drawn));
        }
        ControlFlow::Continue(())
    }
}

/// Steps that are left out of a rate, because they choose algorithms and fill buffers.
const WARM: usize = 10;

pub(crate) fn measure(model: &str, [side, channels, batch, steps]: [usize; 4], views: usize) {
    assert!(steps > WARM + 1, "the first {WARM} steps are not counted; give more");
    let folder = tempfile::tempdir().expect("a writable folder");
    write_data(folder.path(), 20 * batch, side, channels);
    for (name, precision) in [
        (FactorPrecision::F32, Precision::F32),
        (FactorPrecision::Tf32, Precision::Tf32),
        (FactorPrecision::Bf16, Precision::Bf16),
    ] {
        let mut request = request(
            folder.path(),
            &format!(
                "flip = true\n[model]\nname = '{model}'\n[optimiser]\nlearning_rate = 0.01\nmomentum = 0.9\nema = 0.999\n\
                 [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[pipeline]\ncrop = '{side}x{side}'\nviews = {views}\n\
                 [sampling]\nbatch = {batch}\nsteps = {steps}\n"
            ),
        );
        (request.spec.data.mean, request.spec.data.std) =
            (Some(vec![0.5; channels]), Some(vec![0.25; channels]));
        request.spec.performance = Performance {
            device: Some(DeviceChoice::Cuda(0)),
            precision: Some(name),
            ..Performance::default()
        };
        let mut clock = Clock::default();
        let out = folder.path().join(name.name());
        start(&request, &out, &mut clock).expect("a run");
        let timed = &clock.0[WARM..];
        let seconds = (timed[timed.len() - 1].0 - timed[0].0).as_secs_f64();
        let drawn: Vec<usize> = clock.0.iter().map(|(_, drawn)| *drawn).collect();
        let whole = drawn[WARM + 1..].iter().sum::<usize>() as f64 / seconds;
        // This is how many records a run plans for with Poisson batches of this size.
        let planned = (batch as f64 + 2.5 * (batch as f64).sqrt()).ceil() as usize;
        let alone = executor(&graph(model, &[channels, side, side]), precision, planned, &drawn, views);
        println!(
            "{{\"model\":\"{model}\",\"batch\":{batch},\"views\":{views},\"precision\":\"{}\",\"whole_samples_per_second\":{whole:.0},\
             \"executor_samples_per_second\":{alone:.0},\"share\":{:.3}}}",
            name.name(),
            whole / alone
        );
    }
}

/// Records per second of the executor alone on batches of these sizes, with parameters that stay on the card.
fn executor(graph: &Graph, precision: Precision, batch: usize, sizes: &[usize], views: usize) -> f64 {
    let mut executor =
        CudaExecutor::new(graph, CudaOptions { precision, batch: batch * views, ..CudaOptions::default() })
            .expect("a card");
    executor.load(&Parameters::init(graph, 1)).expect("same graph");
    let len = graph.input_shape().iter().product::<usize>() * views;
    let most = sizes.iter().copied().max().unwrap_or(1);
    let inputs: Vec<f32> = (0..most * len).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
    let classes: Vec<u32> = (0..(most * views) as u32).map(|i| i % 10).collect();
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, executor.layout()).expect("it fits");
    let mut began = Instant::now();
    for (step, &size) in sizes.iter().enumerate() {
        let mut sum = executor.gradient_sum().expect("memory");
        let targets = Targets::Classes(&classes[..size * views]);
        let batch = Batch { views, ..Batch::new(&inputs[..size * len], targets) };
        let mut loaded = executor.resident().expect("loaded");
        loaded.clipped_sum(&batch, &rule, &mut sum).expect("a good batch");
        if step == WARM {
            began = Instant::now();
        }
    }
    sizes[WARM + 1..].iter().sum::<usize>() as f64 / began.elapsed().as_secs_f64()
}
