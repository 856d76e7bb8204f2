//! Several cards. Where a machine has one, it stands for two, and NCCL joins it alone.

use std::path::Path;

use dapple_engine::cuda::{
    Convolutions, CudaAddition, CudaError, CudaExecutor, CudaGroup, CudaGroupError, CudaOptions,
    LatticeNoise, StateValues, Update, device_count,
};
use dapple_engine::{Batch, Clipping, ClippingRule, Layout, Targets, UpdateRule};
use dapple_graph::{Graph, Parameters, zoo};
use dapple_plan::spec::{DeviceChoice, Performance};
use dapple_train::{Silent, TrainError, start};

use crate::common::model_bytes;
use crate::{Fault, expect, gpu, graph, losses, plan};

/// Every process chooses the same algorithms with these.
const OPTIONS: CudaOptions = CudaOptions {
    device: 0,
    microbatch: 64,
    batch: 64,
    convolutions: Convolutions::Own,
    precision: dapple_engine::cuda::Precision::F32,
    measure: false,
};
/// Samples of each step: shares of different sizes, none at all, and fewer than cards.
const STEPS: [usize; 4] = [37, 0, 1, 64];
/// Noise of standard deviation 1.5 on a lattice of 2^-10, and the rule it goes through.
const LATTICE: f64 = 1.0 / 1024.0;
const DEVIATION: f64 = 1536.0;
const RULE: UpdateRule = UpdateRule::Sgd { momentum: 0.9, nesterov: false };

pub(crate) fn check(folder: &Path) -> Result<(), Fault> {
    let graph = graph("wrn-16-4", &[3, 32, 32], 10)?;
    let alone = alone(&graph)?;
    match together(&graph, &[0], CudaAddition::Nccl) {
        Err(fault)
            if matches!(fault.downcast_ref(), Some(CudaGroupError::Together(CudaError::Library { .. }))) =>
        {
            println!("NCCL: not checked: {fault}");
        }
        joined => {
            expect(joined? == alone, || "joined by NCCL, one card has other bits than alone".to_owned())?
        }
    }
    expect(together(&graph, &[0], CudaAddition::Host)? == alone, || {
        "a group of one has other bits".to_owned()
    })?;
    compare("one card taken for two", &together(&graph, &[0, 0], CudaAddition::Host)?, &alone)?;
    let cards: Vec<usize> = (0..device_count()?).collect();
    if cards.len() > 1 {
        compare("all cards, by NCCL", &together(&graph, &cards, CudaAddition::Nccl)?, &alone)?;
        compare("all cards, on the host", &together(&graph, &cards, CudaAddition::Host)?, &alone)?;
    }
    out_of_memory()?;
    runs(folder, cards.len())
}

/// Parameters, momentum and their running mean after the steps.
type Learned = [Vec<f32>; 3];

fn learned(parameters: &Parameters, state: StateValues) -> Learned {
    [parameters.values().to_vec(), state.first, state.mean.unwrap_or_default()]
}

fn first_state(graph: &Graph, trainable: usize) -> StateValues {
    let mean = Some(Parameters::init(graph, 1).values().to_vec());
    StateValues { first: vec![0.0; trainable], second: Vec::new(), mean }
}

fn update(key: &[u8; 32]) -> Update<'_> {
    let noise = Some(LatticeNoise { key, lattice: LATTICE, deviation: DEVIATION });
    Update { noise, rule: RULE, numbers: RULE.numbers(0.1, 0.01, 50, 1), mean_rest: 0.1 }
}

/// The samples of a step.
fn data(graph: &Graph, samples: usize) -> (Vec<f32>, Vec<u32>) {
    let len: usize = graph.input_shape().iter().product();
    let inputs = (0..samples * len).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
    (inputs, (0..samples as u32).map(|i| i % 10).collect())
}

/// Each gradient to a norm of one, in sums of any batch here.
fn rule(layout: &Layout) -> Result<ClippingRule, Fault> {
    Ok(ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, layout)?)
}

/// The steps on one card, without a group.
fn alone(graph: &Graph) -> Result<Learned, Fault> {
    let mut executor = CudaExecutor::new(graph, OPTIONS)?;
    let mut parameters = Parameters::init(graph, 1);
    let mut state = executor.state(&first_state(graph, executor.layout().len()))?;
    executor.load(&parameters)?;
    let rule = rule(executor.layout())?;
    for (step, samples) in STEPS.into_iter().enumerate() {
        let (inputs, classes) = data(graph, samples);
        let mut sum = executor.gradient_sum()?;
        let mut loaded = executor.resident()?;
        loaded.clipped_sum(&Batch::new(&inputs, Targets::Classes(&classes)), &rule, &mut sum)?;
        loaded.update(sum, &mut state, &update(&[step as u8; 32]))?;
    }
    executor.resident()?.fetch(&mut parameters)?;
    Ok(learned(&parameters, state.fetch(&mut executor)?))
}

/// The same steps in a group.
fn together(graph: &Graph, cards: &[usize], addition: CudaAddition) -> Result<Learned, Fault> {
    let mut group = CudaGroup::new(graph, cards, OPTIONS, addition)?;
    let mut parameters = Parameters::init(graph, 1);
    let mut state = group.state(&first_state(graph, group.layout().len()))?;
    group.load(&parameters)?;
    let rule = rule(group.layout())?;
    for (step, samples) in STEPS.into_iter().enumerate() {
        let (inputs, classes) = data(graph, samples);
        let mut sum = group.gradient_sum()?;
        group.clipped_sum(&Batch::new(&inputs, Targets::Classes(&classes)), &rule, &mut sum)?;
        group.update(sum, &mut state, &update(&[step as u8; 32]))?;
    }
    // This looks whether all cards hold the same bits, too.
    let state = group.fetch(&mut parameters, &state)?;
    Ok(learned(&parameters, state))
}

/// Every sample adds the same whole numbers on whichever card, and they add up without rounding: every bit is the same.
fn compare(name: &str, got: &Learned, want: &Learned) -> Result<(), Fault> {
    for (part, what) in ["weights", "momentum", "mean"].into_iter().enumerate() {
        let (got, want) = (&got[part], &want[part]);
        let same = got.iter().zip(want).filter(|(got, want)| got.to_bits() == want.to_bits()).count();
        println!("{name}: {what}: {same} of {} with the same bits", want.len());
        expect(got.len() == want.len() && same == want.len(), || format!("{name}: {what} differ"))?;
    }
    Ok(())
}

/// A group whose cards have too little memory says so, and no card waits for another.
fn out_of_memory() -> Result<(), Fault> {
    let graph = zoo::wide_resnet(zoo::WideResNet::W40x4, &[1, 160, 160], 10)?;
    let options = CudaOptions { microbatch: 1024, batch: 1024, ..OPTIONS };
    let mut group = CudaGroup::new(&graph, &[0, 0], options, CudaAddition::Host)?;
    group.load(&Parameters::init(&graph, 1))?;
    let (inputs, classes) = data(&graph, 64);
    let mut sum = group.gradient_sum()?;
    let batch = Batch::new(&inputs, Targets::Classes(&classes));
    let rule = rule(group.layout())?;
    let error = group
        .clipped_sum(&batch, &rule, &mut sum)
        .err()
        .ok_or("the card held more than was thought possible")?;
    println!("{error}");
    let told = matches!(error, CudaGroupError::Card { device: 0, source: CudaError::OutOfMemory { .. } });
    expect(told, || error.to_string())
}

/// Whole runs: all cards, and cards that are not there.
fn runs(folder: &Path, cards: usize) -> Result<(), Fault> {
    let optimiser = "learning_rate = 0.05\nmomentum = 0.9\nema = 0.9";
    let on = |device: DeviceChoice| {
        plan(folder, "small-cnn", optimiser, &Performance { device: Some(device), ..Performance::default() })
    };
    let first = losses(folder, "first", &plan(folder, "small-cnn", optimiser, &gpu()))?;
    let all = losses(folder, "all", &on(DeviceChoice::AllCards))?;
    let again = losses(folder, "again", &on(DeviceChoice::AllCards))?;
    let same = |one: &str, other: &str| model_bytes(&folder.join(one)) == model_bytes(&folder.join(other));
    println!("{cards} cards: losses of the last step {:?} on one, {:?} on all", first.last(), all.last());
    expect(all == again && same("all", "again"), || "the same cards gave other bits".to_owned())?;
    expect(cards > 1 || (all == first && same("all", "first")), || {
        "one card has other bits as a group".to_owned()
    })?;
    let missing = folder.join("missing");
    let mut request = on("cuda:0,99".parse()?);
    for seed in [Some(1), None] {
        request.spec.train.seed = seed;
        let error =
            start(&request, &missing, &mut Silent).err().ok_or("a card that is not there was used")?;
        println!("{error}; hint: {}", error.hint().unwrap_or_default());
        let told = matches!(error, TrainError::Device { .. }) && error.hint().is_some();
        expect(told && !missing.exists(), || format!("{error} left {}", missing.display()))?;
    }
    Ok(())
}
