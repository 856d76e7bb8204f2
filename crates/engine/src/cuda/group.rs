//! Several cards of one machine that train one model together.
//!
//! Every card takes a share of the batch's samples and adds up their clipped gradients; NCCL adds the cards' sums, so that all of them
//! hold the same numbers; and every card makes the same noisy sum of them, from the same key, and takes the same step. So noise enters
//! the sum once, and parameters never travel between cards.

use std::ops::Range;

use dapple_graph::{Graph, Parameters};

use super::error::CudaError;
use super::nccl::Communicators;
use super::{CudaExecutor, CudaGradientSum, CudaOptions, CudaState, StateValues, Update};
use crate::batch::{Batch, Dropout, Targets};
use crate::clipping::Clipping;
use crate::error::EngineError;
use crate::stats::StepStats;

/// Executors of the same graph on several cards.
#[derive(Debug)]
pub struct CudaGroup {
    // In front of the executors, whose streams they use.
    communicators: Communicators,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    sum: CudaGradientSum,
    state: Option<CudaState>,
    // Last, so that it outlives the memory on its card.
    executor: CudaExecutor,
}

impl CudaGroup {
    /// Executors on these cards; `options.device` is not used.
    ///
    /// # Errors
    /// As [`CudaExecutor::new`], or if NCCL is not found or cannot join the cards.
    pub fn new(graph: &Graph, devices: &[usize], options: CudaOptions) -> Result<Self, CudaError> {
        let member = |&device: &usize| {
            let mut executor = CudaExecutor::new(graph, CudaOptions { device, ..options })?;
            Ok(Member { sum: executor.gradient_sum()?, state: None, executor })
        };
        let members = devices.iter().map(member).collect::<Result<Vec<_>, CudaError>>()?;
        let communicators = Communicators::new(devices)?;
        Ok(Self { communicators, members })
    }

    /// Puts the same parameters on every card.
    ///
    /// # Errors
    /// As [`CudaExecutor::load`].
    pub fn load(&mut self, parameters: &Parameters) -> Result<(), CudaError> {
        self.members.iter_mut().try_for_each(|member| member.executor.load(parameters).map(|_| ()))
    }

    /// Puts the same optimiser's state on every card.
    ///
    /// # Errors
    /// As [`CudaExecutor::state`].
    pub fn set_state(&mut self, values: &StateValues) -> Result<(), CudaError> {
        for member in &mut self.members {
            member.state = Some(member.executor.state(values)?);
        }
        Ok(())
    }

    /// Adds every sample's clipped gradient to the group's sum.
    ///
    /// # Errors
    /// As [`super::CudaLoaded::clipped_sum`]; then the sum must not be used, and [`CudaGroup::clear`] starts a new one.
    ///
    /// # Guarantee
    /// As [`super::CudaLoaded::clipped_sum`]: every sample is on one card and adds a vector of norm at most
    /// [`Clipping::sensitivity`] that depends on no other sample.
    pub fn clipped_sum(&mut self, batch: &Batch<'_>, clipping: &Clipping) -> Result<StepStats, CudaError> {
        let Some(member) = self.members.first() else { return Err(EngineError::Parameters.into()) };
        let graph = member.executor.graph.clone();
        together(&mut self.members, &graph, batch, |member, part| {
            member.executor.resident()?.clipped_sum(part, clipping, &mut member.sum)
        })
    }

    /// Adds up the cards' sums, adds noise to the whole once, and takes the optimiser's step on every card.
    ///
    /// # Guarantee
    /// As [`super::CudaLoaded::update`] for the sum over all cards. The noise is a function of that sum and the key, so the cards hold one
    /// draw of it, not several.
    ///
    /// # Errors
    /// As [`super::CudaLoaded::update`], or if there is no state, or NCCL fails.
    pub fn update(&mut self, update: &Update<'_>) -> Result<(), CudaError> {
        for (member, sum) in self.reduced()? {
            let Some(state) = &mut member.state else { return Err(EngineError::Parameters.into()) };
            member.executor.resident()?.update(sum, state, update)?;
        }
        Ok(())
    }

    /// The sum over all cards as a flat gradient; a new sum begins.
    ///
    /// # Errors
    /// If a card or NCCL fails.
    pub fn gradient(&mut self) -> Result<Vec<f32>, CudaError> {
        match self.reduced()?.into_iter().next() {
            Some((member, sum)) => member.executor.resident()?.gradient(sum),
            None => Ok(Vec::new()),
        }
    }

    /// Begins a new sum.
    ///
    /// # Errors
    /// If a card has too little memory.
    pub fn clear(&mut self) -> Result<(), CudaError> {
        for member in &mut self.members {
            member.sum = member.executor.gradient_sum()?;
        }
        Ok(())
    }

    /// Fetches parameters and state, which are the same on every card.
    ///
    /// # Errors
    /// If the parameters belong to another graph, or the card fails.
    pub fn fetch(&mut self, parameters: &mut Parameters) -> Result<StateValues, CudaError> {
        let Some(member) = self.members.first_mut() else { return Ok(StateValues::default()) };
        member.executor.resident()?.fetch(parameters)?;
        match &member.state {
            Some(state) => state.fetch(&mut member.executor),
            None => Ok(StateValues::default()),
        }
    }

    /// Every card with the sum over all of them; new sums begin.
    fn reduced(&mut self) -> Result<Vec<(&mut Member, CudaGradientSum)>, CudaError> {
        let places = self.members.iter().map(|member| (&member.executor.device, &member.sum.values));
        self.communicators.add_up(places)?;
        let taken = |member: &'_ mut Member| {
            let empty = member.executor.gradient_sum()?;
            Ok(std::mem::replace(&mut member.sum, empty))
        };
        let sums = self.members.iter_mut().map(taken).collect::<Result<Vec<_>, CudaError>>()?;
        Ok(self.members.iter_mut().zip(sums).collect())
    }
}

/// Equal shares of `samples`, in order; the first ones are larger by one where they cannot be equal.
fn shares(samples: usize, members: usize) -> Vec<Range<usize>> {
    let start = |member: usize| member * (samples / members) + member.min(samples % members);
    (0..members).map(|member| start(member)..start(member + 1)).collect()
}

/// The samples of a range, as a batch of their own that drops what the whole batch would.
fn part<'a>(batch: &Batch<'a>, graph: &Graph, range: &Range<usize>) -> Batch<'a> {
    let shape = graph.output_shape();
    let (output, positions): (usize, usize) = (shape.iter().product(), shape[1..].iter().product());
    let input: usize = graph.input_shape().iter().product();
    let views = range.start * batch.views..range.end * batch.views;
    let of = |size: usize| views.start * size..views.end * size;
    let dropout = batch.dropout.map(|Dropout { seed, first_sample }| Dropout {
        seed,
        first_sample: first_sample + range.start as u64,
    });
    Batch {
        inputs: &batch.inputs[of(input)],
        targets: match batch.targets {
            Targets::Classes(classes) => Targets::Classes(&classes[of(positions)]),
            Targets::Probabilities(values) => Targets::Probabilities(&values[of(output)]),
            Targets::Values(values) => Targets::Values(&values[of(output)]),
        },
        dropout,
        ..*batch
    }
}

/// Runs every member's share of a batch at the same time, and puts what they say of their samples into the batch's order.
fn together<M: Send>(
    members: &mut [M],
    graph: &Graph,
    batch: &Batch<'_>,
    run: impl Fn(&mut M, &Batch<'_>) -> Result<StepStats, CudaError> + Sync,
) -> Result<StepStats, CudaError> {
    let samples = batch.check(graph)?;
    let ranges = shares(samples, members.len());
    let run = &run;
    let results: Vec<Result<StepStats, CudaError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter_mut()
            .zip(&ranges)
            .map(|(member, range)| scope.spawn(move || run(member, &part(batch, graph, range))))
            .collect();
        let lost = || CudaError::Call { call: "running a card", reason: "its thread ended early".into() };
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(lost()))).collect()
    });
    let mut stats = StepStats::default();
    for (result, range) in results.into_iter().zip(ranges) {
        let part = result.map_err(|error| match error {
            CudaError::Engine(EngineError::NotFinite { place, sample }) => {
                EngineError::NotFinite { place, sample: sample + range.start }.into()
            }
            error => error,
        })?;
        stats.losses.extend(part.losses);
        stats.norms.extend(part.norms);
    }
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuExecutor, Options};
    use dapple_graph::zoo;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_are_even_and_cover_every_sample(samples in 0usize..200, members in 1usize..9) {
            let ranges = shares(samples, members);
            prop_assert_eq!(ranges.len(), members);
            prop_assert_eq!(ranges.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..samples).collect::<Vec<_>>());
            let lens = ranges.iter().map(ExactSizeIterator::len);
            prop_assert!(lens.clone().max().unwrap() - lens.min().unwrap() <= 1);
        }
    }

    /// Executors on the CPU stand for the cards, and plain addition for NCCL: the sum is that of one executor over the whole batch, and
    /// so are the losses, in their order, with more members than samples too.
    #[test]
    fn what_members_add_up_to_is_what_one_makes_alone() {
        let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        let parameters = Parameters::init(&graph, 3);
        let (samples, views) = (5, 2);
        let inputs: Vec<f32> =
            (0..samples * views * 784).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
        let classes: Vec<u32> = (0..samples * views).map(|i| (i % 10) as u32).collect();
        let dropout = Some(Dropout { seed: 9, first_sample: 40 });
        let batch = Batch { inputs: &inputs, targets: Targets::Classes(&classes), views, dropout };
        let clipping = Clipping::Flat { max_norm: 0.5 };
        let alone = |batch: &Batch<'_>| {
            let mut executor =
                CpuExecutor::new(&graph, Options { threads: 1, ..Options::default() }).unwrap();
            let mut sum = executor.gradient_sum();
            let mut loaded = executor.load(&parameters).unwrap();
            let stats = loaded.clipped_sum(batch, &clipping, &mut sum).unwrap();
            (loaded.gradient(sum).unwrap(), stats)
        };
        let (want, want_stats) = alone(&batch);
        for count in [1, 2, 3, 7] {
            let mut members = vec![Vec::new(); count];
            let stats = together(&mut members, &graph, &batch, |sum, part| {
                let (gradient, stats) = alone(part);
                *sum = gradient;
                Ok(stats)
            });
            assert_eq!(stats.unwrap(), want_stats);
            for (index, want) in want.iter().enumerate() {
                let sum: f32 = members.iter().map(|sum| sum[index]).sum();
                // Five clipped gradients added in another order.
                assert!((sum - want).abs() <= 1e-6, "{count}: {sum} {want}");
            }
        }
    }

    #[test]
    fn a_sample_that_fails_has_its_number_in_the_batch() {
        let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        let inputs = vec![0.0; 4 * 784];
        let classes = [0, 1, 2, 3];
        let batch = Batch::new(&inputs, Targets::Classes(&classes));
        let error = together(&mut [0, 1], &graph, &batch, |member, _| match member {
            0 => Ok(StepStats::default()),
            _ => Err(EngineError::NotFinite { place: "loss".into(), sample: 1 }.into()),
        });
        assert_eq!(error, Err(EngineError::NotFinite { place: "loss".into(), sample: 3 }.into()));
    }
}
