//! Groups of several cards. On a machine with one card, that one stands for two, and NCCL joins it alone.

use dapple_engine::cuda::{
    Convolutions, CudaAddition, CudaError, CudaExecutor, CudaGroup, CudaGroupError, CudaLink, CudaOptions,
    CudaUpdate, LatticeNoise, Precision, StateValues, device_count,
};
use dapple_engine::{Clipping, JointNumbers, Layout, StepStats, UpdateNumbers, UpdateRule};
use dapple_graph::{Graph, Parameters, zoo};

use super::alone;
use crate::common::{Data, rule};

/// With these options every process chooses the same algorithms.
const OPTIONS: CudaOptions = CudaOptions {
    device: 0,
    microbatch: 64,
    batch: 64,
    convolutions: Convolutions::Own,
    precision: Precision::F32,
    measure: false,
};
const CLIPPING: Clipping = Clipping::Flat { max_norm: 1.0 };
/// The number of samples of each step: among them some that make shares of different sizes, none at all, and fewer than there are cards.
const STEPS: [usize; 4] = [37, 0, 1, 64];
/// Noise of standard deviation 1.5 on a lattice of 2^-10, and the rule of the update.
const LATTICE: f64 = 1.0 / 1024.0;
const DEVIATION: f64 = 1536.0;
const RULE: UpdateRule = UpdateRule::Sgd { momentum: 0.9, nesterov: false };

fn model() -> Graph {
    zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap()
}

/// The parameters and the optimiser's state after the steps, and the sum and statistics of a batch before them.
#[derive(PartialEq)]
struct Learned {
    sum: Vec<f32>,
    stats: StepStats,
    parameters: Parameters,
    state: StateValues,
}

fn first_state(graph: &Graph, trainable: usize) -> StateValues {
    let mean = Some(Parameters::init(graph, 1).values().to_vec());
    StateValues { first: vec![0.0; trainable], second: Vec::new(), mean }
}

fn update<'k>(key: &'k [u8; 32], numbers: &'k [UpdateNumbers]) -> CudaUpdate<'k> {
    let noise = Some(LatticeNoise { key, lattice: LATTICE, deviation: DEVIATION });
    CudaUpdate { noise, rule: RULE, numbers, mean_rest: 0.1 }
}

/// The numbers of two groups of parameters. Every third parameter is in the second group.
fn numbers() -> [UpdateNumbers; 2] {
    [0.1, 0.05].map(|rate| RULE.numbers(rate, 0.01, 50, 1, 0.0))
}

fn groups(layout: &Layout) -> Vec<usize> {
    (0..layout.entries().len()).map(|entry| usize::from(entry % 3 == 2)).collect()
}

/// Takes the steps on one card, without a group.
fn without_group(graph: &Graph) -> Learned {
    let mut executor = CudaExecutor::new(graph, OPTIONS).unwrap();
    let mut parameters = Parameters::init(graph, 1);
    let (values, groups) = (first_state(graph, executor.layout().len()), groups(executor.layout()));
    let mut state = executor.state(&values, &groups).unwrap();
    executor.load(&parameters).unwrap();
    let rule = rule(&CLIPPING, executor.layout());
    let mut first = executor.gradient_sum().unwrap();
    let mut loaded = executor.resident().unwrap();
    let stats = loaded.clipped_sum(&Data::new(graph, STEPS[0], 1).batch(), &rule, &mut first).unwrap();
    let seen = loaded.gradient(first).unwrap();
    for (step, samples) in STEPS.into_iter().enumerate() {
        let data = Data::new(graph, samples, 1);
        let mut sum = executor.gradient_sum().unwrap();
        executor.resident().unwrap().clipped_sum(&data.batch(), &rule, &mut sum).unwrap();
        if samples == 1 {
            // Single precision holds what one sample adds, and the noise depends only on what a sum stands for, so this changes nothing.
            let gradient = executor.resident().unwrap().gradient(sum).unwrap();
            sum = executor.gradient_sum_of(&gradient).unwrap();
        }
        executor.resident().unwrap().update(sum, &mut state, &update(&[step as u8; 32], &numbers())).unwrap();
    }
    executor.resident().unwrap().fetch(&mut parameters).unwrap();
    Learned { sum: seen, stats, parameters, state: state.fetch(&mut executor).unwrap() }
}

/// Takes the same steps in a group.
fn together(graph: &Graph, cards: &[usize], addition: CudaAddition) -> Result<Learned, CudaGroupError> {
    let mut group = CudaGroup::new(graph, cards, OPTIONS, addition)?;
    let mut parameters = Parameters::init(graph, 1);
    let (values, groups) = (first_state(graph, group.layout().len()), groups(group.layout()));
    let mut state = group.state(&values, &groups)?;
    group.load(&parameters)?;
    let rule = rule(&CLIPPING, group.layout());
    let data = Data::new(graph, STEPS[0], 1);
    let mut first = group.gradient_sum()?;
    let stats = group.clipped_sum(&data.batch(), &rule, &mut first)?;
    let seen = group.gradient(first)?;
    for (step, samples) in STEPS.into_iter().enumerate() {
        let data = Data::new(graph, samples, 1);
        let mut sum = group.gradient_sum()?;
        group.clipped_sum(&data.batch(), &rule, &mut sum)?;
        group.update(sum, &mut state, &update(&[step as u8; 32], &numbers()))?;
    }
    // This also checks that all cards hold the same bits.
    let state = group.fetch(&mut parameters, &state)?;
    Ok(Learned { sum: seen, stats, parameters, state })
}

/// Every sample adds the same whole numbers on any card, these are added without rounding, and noise is drawn once, so every bit is the same.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn groups_learn_the_bits_of_one_card() {
    let _card = alone();
    let graph = model();
    let alone = without_group(&graph);
    let all: Vec<usize> = (0..device_count().unwrap()).collect();
    for (name, cards, addition) in [
        ("one card, joined by NCCL", &[0][..], CudaAddition::Nccl),
        ("one card", &[0], CudaAddition::Host),
        ("one card taken for two", &[0, 0], CudaAddition::Host),
        ("all cards, joined by NCCL", &all, CudaAddition::Nccl),
        ("all cards, added on the host", &all, CudaAddition::Host),
    ] {
        match together(&graph, cards, addition) {
            Err(CudaGroupError::Together(error @ CudaError::Library { .. })) => {
                println!("{name}: not checked: {error}");
            }
            got => assert!(got.unwrap() == alone, "{name}: other bits than one card alone"),
        }
    }
}

/// Executors that stand for the cards of several processes. What hosts add up is the sum of all samples, also with a card that had none, and a link that
/// joins one card alone changes nothing.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn cards_of_several_processes_add_up_to_the_bit() {
    let _card = alone();
    let graph = model();
    let open = || {
        let mut group = CudaGroup::new(&graph, &[0], OPTIONS, CudaAddition::Host).unwrap();
        group.load(&Parameters::init(&graph, 1)).unwrap();
        group
    };
    let rule = rule(&CLIPPING, &Layout::new(&graph));
    let summed = |group: &mut CudaGroup, parts: &[usize]| {
        let mut sum = group.gradient_sum().unwrap();
        for &samples in parts {
            group.clipped_sum(&Data::new(&graph, samples, 1).batch(), &rule, &mut sum).unwrap();
        }
        sum
    };
    let mut group = open();
    let whole = summed(&mut group, &[STEPS[0], STEPS[3]]);
    let whole = group.gradient(whole).unwrap();
    let mut processes = [open(), open(), open()];
    let parts = [&[STEPS[0]][..], &[], &[STEPS[3]]];
    let mut sums = Vec::new();
    let mut added = vec![0; whole.len()];
    for (group, parts) in processes.iter_mut().zip(parts) {
        let mut sum = summed(group, parts);
        let mut total = group.read(&mut sum, &rule).unwrap();
        let JointNumbers::Wide(own) = total.joint() else { panic!("clipped sums are whole numbers") };
        added.iter_mut().zip(own).for_each(|(to, from)| *to += *from);
        sums.push((sum, total));
    }
    for (group, (mut sum, mut total)) in processes.iter_mut().zip(sums) {
        let JointNumbers::Wide(own) = total.joint() else { panic!("clipped sums are whole numbers") };
        own.copy_from_slice(&added);
        group.write(&mut sum, &rule, &total).unwrap();
        assert!(group.gradient(sum).unwrap() == whole, "a process has another sum");
    }
    if !CudaLink::is_possible() {
        println!("links: not checked: NCCL was not found");
        return;
    }
    let mut link = CudaLink::new(CudaLink::identifier().unwrap(), 0, 1);
    for parts in [&[STEPS[0], STEPS[3]][..], &[]] {
        let mut sum = summed(&mut group, parts);
        group.add_over(&mut sum, &rule, &mut link).unwrap();
        let expected = if parts.is_empty() { vec![0.0; whole.len()] } else { whole.clone() };
        assert!(group.gradient(sum).unwrap() == expected, "a link of one card changed its sum");
    }
}

/// A card that waits for another process in vain says so when its patience is over, and so does each later sum.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_card_whose_partner_never_comes_does_not_wait_for_ever() {
    let _card = alone();
    if !CudaLink::is_possible() {
        println!("not checked: NCCL was not found");
        return;
    }
    let graph = model();
    let mut group = CudaGroup::new(&graph, &[0], OPTIONS, CudaAddition::Host).unwrap();
    group.load(&Parameters::init(&graph, 1)).unwrap();
    let rule = rule(&CLIPPING, group.layout());
    let mut link = CudaLink::new(CudaLink::identifier().unwrap(), 0, 2);
    link.set_patience(std::time::Duration::from_secs(2));
    let mut sum = group.gradient_sum().unwrap();
    let error = group.add_over(&mut sum, &rule, &mut link).unwrap_err();
    assert!(error.to_string().contains("a card does not answer"), "{error}");
    assert!(group.add_over(&mut sum, &rule, &mut link).is_err());
}

/// A group whose cards have too little memory says so, and no card waits for another.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_group_that_is_out_of_memory_says_so() {
    let _card = alone();
    let graph = zoo::wide_resnet(zoo::WideResNet::W40x4, &[1, 160, 160], 10).unwrap();
    let options = CudaOptions { microbatch: 1024, batch: 1024, ..OPTIONS };
    let mut group = CudaGroup::new(&graph, &[0, 0], options, CudaAddition::Host).unwrap();
    group.load(&Parameters::init(&graph, 1)).unwrap();
    let data = Data::new(&graph, 64, 1);
    let mut sum = group.gradient_sum().unwrap();
    let rule = rule(&CLIPPING, group.layout());
    let error = group.clipped_sum(&data.batch(), &rule, &mut sum).unwrap_err();
    let told = matches!(error, CudaGroupError::Card { device: 0, source: CudaError::OutOfMemory { .. } });
    assert!(told, "{error}");
}
