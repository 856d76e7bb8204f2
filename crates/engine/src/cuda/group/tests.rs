//! Here executors on the processor stand in for the cards, with the same shares, the same additions and the same failures.

use dapple_graph::zoo;

use super::super::LatticeNoise;
use super::*;
use crate::batch::{DropoutSource, Targets};
use crate::update::UpdateRule;
use crate::{Clipping, CpuExecutor, CpuOptions};

const CLIPPING: Clipping = Clipping::Flat { max_norm: 0.5 };
const VIEWS: usize = 2;
/// The number of samples of each step: among them fewer than there are cards, none, and some that make shares of different sizes.
const STEPS: [usize; 4] = [5, 1, 0, 7];

#[derive(Debug, Clone, Copy, PartialEq)]
enum RankWork {
    Sum,
    Settle,
    Read,
    Write,
    Update,
}

/// What fails on a stand-in, and how.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Error(RankWork),
    Panic(RankWork),
}

struct StandIn {
    executor: CpuExecutor,
    parameters: Parameters,
    fault: Option<Fault>,
    done: Vec<RankWork>,
}

impl StandIn {
    fn begin(&mut self, work: RankWork) -> Result<(), CudaError> {
        match self.fault {
            Some(Fault::Error(failing)) if failing == work => {
                Err(CudaError::OutOfMemory { wanted_mb: 2, free_mb: 1 })
            }
            Some(Fault::Panic(failing)) if failing == work => panic!("on purpose"),
            _ => {
                self.done.push(work);
                Ok(())
            }
        }
    }
}

impl Rank for StandIn {
    type Sum = Total;
    /// The number of updates so far.
    type State = u64;

    fn clipped_sum(
        &mut self,
        share: &Batch<'_>,
        rule: &ClippingRule,
        sum: &mut Total,
    ) -> Result<StepStats, CudaError> {
        self.begin(RankWork::Sum)?;
        let mut own = self.executor.gradient_sum();
        let mut loaded = self.executor.load(&self.parameters)?;
        let stats = loaded.clipped_sum(share, rule, &mut own)?;
        sum.add(&loaded.total(own)?)?;
        Ok(stats)
    }

    fn settle(&mut self) -> Result<(), CudaError> {
        self.begin(RankWork::Settle)
    }

    fn read(&mut self, sum: &mut Total) -> Result<Total, CudaError> {
        self.begin(RankWork::Read)?;
        Ok(sum.clone())
    }

    fn write(&mut self, sum: &mut Total, total: &Total) -> Result<(), CudaError> {
        self.begin(RankWork::Write)?;
        sum.clone_from(total);
        Ok(())
    }

    /// Takes a step of plain descent, with bytes of the key in the place of noise.
    fn update(&mut self, sum: Total, updates: &mut u64, update: &CudaUpdate<'_>) -> Result<(), CudaError> {
        self.begin(RankWork::Update)?;
        *updates += 1;
        let sum = sum.into_gradient();
        let key = update.noise.map_or([0; 32], |noise| *noise.key);
        for entry in self.executor.layout().entries() {
            let values = self.parameters.get_mut(entry.id);
            for (index, value) in entry.range.clone().zip(values) {
                *value -= update.numbers[0].share * (sum[index] + f32::from(key[index % 32]) / 256.0);
            }
        }
        Ok(())
    }
}

/// Adds on the host, and counts how often it is asked to.
struct Counted(usize);

impl Addition<StandIn> for Counted {
    fn add_up(&mut self, ranks: &mut [StandIn], sums: &mut [Total]) -> Result<(), Failed> {
        self.0 += 1;
        OnHost.add_up(ranks, sums)
    }
}

struct Team {
    graph: Graph,
    ranks: Vec<StandIn>,
    additions: Counted,
}

impl Team {
    fn new(cards: usize) -> Self {
        let graph = zoo::small_cnn(&[1, 28, 28], 4).unwrap();
        let options = CpuOptions { threads: 1, ..CpuOptions::default() };
        let rank = || StandIn {
            executor: CpuExecutor::new(&graph, options).unwrap(),
            parameters: Parameters::init(&graph, 3),
            fault: None,
            done: Vec::new(),
        };
        Self { ranks: (0..cards).map(|_| rank()).collect(), graph, additions: Counted(0) }
    }

    /// Takes a step over a batch.
    fn step(&mut self, (inputs, classes): &(Vec<f32>, Vec<u32>), step: u8) -> Result<StepStats, Failed> {
        let records: Vec<usize> = (0..inputs.len() / VIEWS / 784).map(|sample| 40 + 7 * sample).collect();
        let dropout = Some(DropoutSource { seed: step.into(), records: &records });
        let batch =
            Batch { inputs, targets: Targets::Classes(classes), views: VIEWS, dropout, submodel: None };
        let key = [step + 1; 32];
        let rule = UpdateRule::Sgd { momentum: 0.0, nesterov: false };
        let noise = Some(LatticeNoise { key: &key, lattice: 0.5, deviation: 1500.0 });
        let numbers = [rule.numbers(1.0, 0.0, 10, 1, 0.0)];
        let update = CudaUpdate { noise, rule, numbers: &numbers, mean_rest: 0.0 };
        let layout = self.ranks[0].executor.layout();
        let rule = ClippingRule::new(&CLIPPING, layout).unwrap();
        let mut sums = vec![Total::new(vec![0.0; layout.len()], Vec::new(), rule.unit()); self.ranks.len()];
        let stats = team::clipped_sum(&mut self.ranks, &self.graph, &batch, &rule, &mut sums)?;
        team::add_up(&mut self.ranks, &mut sums, &mut self.additions)?;
        let mut states = vec![0; self.ranks.len()];
        team::update(&mut self.ranks, sums, &mut states, &update)?;
        Ok(stats)
    }

    /// Takes all steps, and returns the losses of each.
    fn train(&mut self) -> Vec<Vec<f32>> {
        let steps = STEPS.into_iter().zip(0..);
        steps.map(|(samples, step)| self.step(&data(samples, |i| i), step).unwrap().losses).collect()
    }

    fn values(&self, rank: usize) -> &[f32] {
        self.ranks[rank].parameters.values()
    }
}

/// The inputs and classes of `samples` samples, of which the `i`-th comes from place `order(i)`.
fn data(samples: usize, order: impl Fn(usize) -> usize) -> (Vec<f32>, Vec<u32>) {
    let input = |view: usize| (0..784).map(move |i| (((view * 784 + i) * 7919) % 1013) as f32 / 506.5 - 1.0);
    let views = |i: usize| (0..VIEWS).map(move |view| i % samples.max(1) * VIEWS + view);
    let views: Vec<usize> = (0..samples).flat_map(|i| views(order(i))).collect();
    (
        views.iter().flat_map(|&view| input(view)).collect(),
        views.iter().map(|view| (view % 4) as u32).collect(),
    )
}

/// This is so because whole numbers have the same sum in every order.
#[test]
fn several_cards_train_as_one_does() {
    let mut alone = Team::new(1);
    let losses = alone.train();
    assert_eq!(losses.iter().map(Vec::len).collect::<Vec<_>>(), STEPS);
    for cards in [2, 3, 7] {
        let mut team = Team::new(cards);
        assert_eq!(team.train(), losses, "{cards}");
        // Every card holds the same bits, so noise entered only once.
        for rank in 0..cards {
            assert_eq!(team.values(rank), alone.values(0), "{cards}");
        }
    }
}

#[test]
fn it_does_not_matter_which_card_takes_which_sample() {
    let mut team = Team::new(3);
    let mut turned = Team::new(3);
    for (samples, step) in STEPS.into_iter().zip(0..) {
        // The model has no dropout, so it does not matter which record a place stands for.
        team.step(&data(samples, |i| i), step).unwrap();
        turned.step(&data(samples, |i| samples - 1 - i), step).unwrap();
    }
    assert_eq!(team.values(0), turned.values(0));
}

#[test]
fn a_card_that_fails_stops_the_others_before_they_wait_for_it() {
    for work in [RankWork::Sum, RankWork::Settle, RankWork::Read, RankWork::Write, RankWork::Update] {
        for (failing, fault) in [(0, Fault::Error(work)), (2, Fault::Error(work)), (1, Fault::Panic(work))] {
            let mut team = Team::new(3);
            team.ranks[failing].fault = Some(fault);
            let failed = team.step(&data(5, |i| i), 0).unwrap_err();
            assert_eq!(failed.rank, Some(failing), "{fault:?}");
            assert_eq!(
                matches!(fault, Fault::Error(_)),
                matches!(failed.error, CudaError::OutOfMemory { .. })
            );
            // What needs every card begins only when every card's own work is done.
            let begun = usize::from(matches!(work, RankWork::Read | RankWork::Write | RankWork::Update));
            assert_eq!(team.additions.0, begun, "{fault:?}");
            for rank in &team.ranks {
                assert!(!rank.done.contains(&RankWork::Update) || work == RankWork::Update, "{fault:?}");
            }
        }
    }
}

#[test]
fn a_sample_that_fails_has_its_number_in_the_batch() {
    let mut team = Team::new(2);
    let (inputs, mut classes) = data(4, |i| i);
    classes[2 * VIEWS] = 9;
    let failed = team.step(&(inputs, classes), 0).unwrap_err();
    assert!(matches!(&failed.error, CudaError::Engine(EngineError::Class { sample: 2, .. })), "{failed:?}");
}

#[test]
fn samples_that_are_not_finite_are_counted_over_all_cards() {
    let mut team = Team::new(2);
    let (mut inputs, classes) = data(4, |i| i);
    inputs[0] = f32::INFINITY;
    inputs[3 * VIEWS * 784] = f32::INFINITY;
    let stats = team.step(&(inputs, classes), 0).unwrap();
    assert_eq!((stats.not_finite, stats.losses.len()), (2, 4));
    assert!(team.values(0).iter().all(|value| value.is_finite()));
}

#[test]
fn sums_that_would_overflow_together_are_refused() {
    let graph = zoo::small_cnn(&[1, 28, 28], 4).unwrap();
    let rule = ClippingRule::new(&CLIPPING, &Layout::new(&graph)).unwrap();
    let capacity = rule.capacity();
    assert_eq!(fits(&rule, [capacity - 90, 30].into_iter(), 60), Ok(()));
    assert_eq!(fits(&rule, [capacity - 90, 30].into_iter(), 61), Err(EngineError::Sum { capacity }));
}

#[test]
fn a_list_that_is_no_group_is_refused() {
    let graph = zoo::small_cnn(&[1, 28, 28], 4).unwrap();
    let open = |devices: &[usize], addition| {
        CudaGroup::new(&graph, devices, CudaOptions::default(), addition).unwrap_err()
    };
    assert_eq!(open(&[], CudaAddition::Nccl), CudaGroupError::Empty);
    assert_eq!(open(&[], CudaAddition::Host), CudaGroupError::Empty);
    assert_eq!(open(&[1, 0, 1], CudaAddition::Nccl), CudaGroupError::Twice { device: 1 });
    // This gets as far as the machine, which may lack something; and no card has the number 99.
    let error = open(&[99, 98], CudaAddition::Nccl);
    assert!(
        matches!(
            error,
            CudaGroupError::Together(CudaError::Library { .. } | CudaError::NoDevice { ordinal: 99, .. })
        ),
        "{error}"
    );
    for error in [CudaGroupError::Empty, CudaGroupError::Twice { device: 1 }, error] {
        assert!(error.hint().is_some() && !error.to_string().contains('\n'), "{error}");
    }
}
