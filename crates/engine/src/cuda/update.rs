//! Noise and the optimiser on the card, so that parameters stay there from step to step.
//!
//! ```text
//! let mut state = executor.state(&values, &groups)?;       // once, from zeros or from a checkpoint
//! executor.load(&parameters)?;                             // once
//! loop {
//!     let mut sum = executor.gradient_sum()?;
//!     let mut loaded = executor.resident()?;
//!     loaded.clipped_sum(&batch, &rule, &mut sum)?;        // once for each microbatch of the loader
//!     loaded.update(sum, &mut state, &update)?;
//! }
//! executor.resident()?.fetch(&mut parameters)?;            // for a checkpoint, with `state.fetch`
//! ```

use dapple_graph::Parameters;

use super::correlated::{CardCorrelatedSums, power_of_two};
use super::device::Device;
use super::error::CudaError;
use super::kernels::{
    ADAM, AddNoise, CORRECTED_ADAM, Exchange, MEAN, MOMENTUM, MoveMean, NoiseKey, PLAIN, ToSingle,
    UpdateBlock, UpdateValues,
};
use super::slice::{DeviceElement, DeviceMemory, DeviceSlice};
use super::{CudaExecutor, CudaGradientSum, CudaLoaded};
use crate::error::EngineError;
use crate::layout::Layout;
use crate::update::{UpdateNumbers, UpdateRule};

/// How many values one block of threads updates.
const BLOCK: usize = 1024;
/// A standard deviation of fewer steps of the lattice than this is one for which rounding was proven to be right.
const MOST_STEPS: f64 = 2048.0;

/// Gaussian noise on a lattice: every coordinate becomes `s round((x + z) / s)`.
#[derive(Clone, Copy)]
pub struct LatticeNoise<'k> {
    /// The key of this step, which must be used for nothing else. It travels with the launch, and the driver may keep a copy for a while.
    pub key: &'k [u8; 32],
    /// The step `s` of the lattice, a power of two.
    pub lattice: f64,
    /// The standard deviation in steps of the lattice, below 2048.
    pub deviation: f64,
}

impl std::fmt::Debug for LatticeNoise<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key: _, lattice, deviation } = self;
        formatter
            .debug_struct("LatticeNoise")
            .field("lattice", lattice)
            .field("deviation", deviation)
            .finish_non_exhaustive()
    }
}

/// The number that the kernel gives to a rule.
fn code(rule: UpdateRule) -> i32 {
    match rule {
        UpdateRule::Sgd { momentum: 0.0, .. } => PLAIN,
        UpdateRule::Sgd { .. } => MOMENTUM,
        UpdateRule::Mean { .. } => MEAN,
        UpdateRule::Adam { .. } => ADAM,
        UpdateRule::CorrectedAdam { .. } => CORRECTED_ADAM,
    }
}

/// What turns a sum of clipped gradients into new parameters.
#[derive(Debug, Clone, Copy)]
pub struct CudaUpdate<'k> {
    /// The noise that is added to the sum; `None` only if the plan has none.
    pub noise: Option<LatticeNoise<'k>>,
    /// The optimiser's rule.
    pub rule: UpdateRule,
    /// The rule's numbers for this update, one set for each group of parameters.
    pub numbers: &'k [UpdateNumbers],
    /// How far the running mean moves towards the new parameters, as a share of the distance. It has no effect if the state has no mean.
    pub mean_rest: f32,
}

/// What an optimiser remembers, on the card.
#[derive(Debug)]
pub struct CudaState {
    first: DeviceMemory,
    second: DeviceMemory,
    mean: Option<DeviceMemory>,
    /// Where every block of trainable values lies, group by group.
    blocks: DeviceMemory,
    /// The number of blocks of each group.
    block_counts: Vec<usize>,
    pub(super) failed: DeviceMemory,
    lens: (usize, usize),
    /// The sums that are released together with those of the next steps, if noise cancels across steps.
    pub(super) correlated: Option<CardCorrelatedSums>,
}

/// What an optimiser remembers, on the host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateValues {
    /// The momentum of SGD or the running mean of Adam's gradients; empty for SGD without momentum.
    pub first: Vec<f32>,
    /// The running mean of the gradients' squares; empty for SGD.
    pub second: Vec<f32>,
    /// The running mean of the parameters, if one is kept.
    pub mean: Option<Vec<f32>>,
}

/// The blocks that cover every trainable value of a group.
fn blocks(layout: &Layout, parameters: &[usize], groups: &[usize], group: usize) -> Vec<UpdateBlock> {
    let own = layout.entries().iter().zip(groups).filter(|(_, own)| **own == group);
    let pieces = own.flat_map(|(entry, _)| {
        let first = parameters[entry.id.index()];
        (0..entry.range.len()).step_by(BLOCK).map(move |offset| {
            let len = BLOCK.min(entry.range.len() - offset);
            let [start, len, target] =
                [entry.range.start + offset, len, first + offset].map(|value| value as i32);
            UpdateBlock { start, len, target }
        })
    });
    pieces.collect()
}

impl CudaExecutor {
    /// Puts on the card what an optimiser remembers, which is up to two numbers for every trainable value and the running mean of all
    /// parameters, if one is kept. `groups` holds the group of each trainable parameter, in order; its numbers move the parameter.
    ///
    /// # Errors
    /// If a slice has a length that fits no rule for this graph, or the card has too little memory.
    pub fn state(&mut self, values: &StateValues, groups: &[usize]) -> Result<CudaState, CudaError> {
        let (trainable, all) = (self.layout.len(), self.inference.steps.parameters_len);
        let wanted = [
            ("first moments", values.first.len(), if values.first.is_empty() { 0 } else { trainable }),
            ("second moments", values.second.len(), if values.second.is_empty() { 0 } else { trainable }),
            ("mean of the parameters", values.mean.as_ref().map_or(all, Vec::len), all),
            ("groups of parameters", groups.len(), self.layout.entries().len()),
        ];
        if let Some((what, found, expected)) = wanted.into_iter().find(|(_, found, wanted)| found != wanted) {
            return Err(EngineError::Length { what: what.to_owned(), expected, found }.into());
        }
        let device = &self.device;
        device.bind()?;
        let of = |group| blocks(&self.layout, &self.inference.steps.parameters, groups, group);
        let by_group: Vec<Vec<UpdateBlock>> =
            (0..groups.iter().max().map_or(0, |last| last + 1)).map(of).collect();
        let rows = by_group.concat();
        let state = CudaState {
            first: filled(device, &values.first)?,
            second: filled(device, &values.second)?,
            mean: values.mean.as_deref().map(|mean| filled(device, mean)).transpose()?,
            blocks: filled(device, &rows)?,
            block_counts: by_group.iter().map(Vec::len).collect(),
            failed: device.allocate(1)?,
            lens: (values.first.len(), values.second.len()),
            correlated: None,
        };
        self.held = 4
            * (values.first.len()
                + values.second.len()
                + values.mean.as_ref().map_or(0, Vec::len)
                + size_of_val(rows.as_slice()) / 4);
        self.count(0);
        Ok(state)
    }

    /// The executor with the parameters that are on the card, which are those of the last [`CudaExecutor::load`] or
    /// [`CudaLoaded::update`].
    ///
    /// # Errors
    /// If no parameters were ever loaded.
    pub fn resident(&mut self) -> Result<CudaLoaded<'_>, CudaError> {
        if !self.filled {
            return Err(EngineError::Parameters.into());
        }
        self.device.bind()?;
        Ok(CudaLoaded { executor: self })
    }
}

/// Allocates memory and fills it with these numbers.
fn filled<T: DeviceElement>(device: &Device, values: &[T]) -> Result<DeviceMemory, CudaError> {
    let memory = device.allocate(size_of_val(values) / 4)?;
    device.upload(values, memory.slice())?;
    Ok(memory)
}

impl CudaState {
    /// Fetches what is remembered, for a checkpoint.
    ///
    /// # Errors
    /// If the card fails.
    pub fn fetch(&self, executor: &mut CudaExecutor) -> Result<StateValues, CudaError> {
        let mut values = StateValues {
            first: vec![0.0; self.lens.0],
            second: vec![0.0; self.lens.1],
            mean: self.mean.as_ref().map(|mean| vec![0.0; mean.slice::<f32>().len()]),
        };
        let (device, staging) = (&executor.device, &mut executor.whole);
        staging.fetch(device, self.first.slice(), &mut values.first)?;
        staging.fetch(device, self.second.slice(), &mut values.second)?;
        if let (Some(from), Some(to)) = (&self.mean, &mut values.mean) {
            staging.fetch(device, from.slice(), to)?;
        }
        Ok(values)
    }
}

impl CudaLoaded<'_> {
    /// Adds noise to a sum, on the card.
    ///
    /// # Guarantee
    /// Each coordinate of the sum becomes `s round((x + z) / s)`, rounded to single precision. Here `x` is the sum itself, which is a whole
    /// number of units if it was clipped and is never rounded on the way, and `z` is a real number with the normal distribution of mean
    /// zero and the stated standard deviation, independent of everything else. This holds except with probability at most 2^-90 for each
    /// coordinate, and provided the key's ChaCha20 streams are uniform. The result is a function of `x` and the key alone, and the same as
    /// the host's: no card changes a bit of it.
    ///
    /// # Errors
    /// If the sum belongs to another graph, the lattice is not a power of two, the deviation is outside of what was proven, or the card
    /// fails; or if the sum has plain numbers and one is not finite, after which the sum must not be used.
    pub fn add_noise(
        &mut self,
        sum: &mut CudaGradientSum,
        state: &mut CudaState,
        noise: &LatticeNoise<'_>,
    ) -> Result<(), CudaError> {
        self.finish(sum)?;
        let failed = state.failed.slice();
        self.executor.device.clear(failed)?;
        let whole = match (sum.wide(), sum.unit()) {
            (Some(numbers), Some(unit)) => Some((numbers, unit)),
            _ => None,
        };
        self.add_noise_to(sum.values(), sum.len, whole, failed, noise)?;
        let plain = whole.is_none();
        sum.made_plain();
        let mut flag = [0i32];
        if plain {
            self.executor.device.download(failed, &mut flag)?;
        }
        match flag {
            [0] => Ok(()),
            _ => Err(CudaError::NotFinite { what: "the sum of gradients" }),
        }
    }

    /// Replaces `values` by whole numbers of some unit with noise, or if there are none, by themselves with noise.
    pub(super) fn add_noise_to(
        &self,
        sum: DeviceSlice<'_, f32>,
        n: usize,
        whole: Option<(DeviceSlice<'_, i64>, f64)>,
        failed: DeviceSlice<'_, i32>,
        noise: &LatticeNoise<'_>,
    ) -> Result<(), CudaError> {
        let LatticeNoise { key, lattice, deviation } = *noise;
        if !(power_of_two(lattice) && deviation > 0.0 && deviation < MOST_STEPS) {
            return Err(CudaError::Noise { lattice, deviation });
        }
        let (carried, unit) = whole.map_or((None, 1.0), |(numbers, unit)| (Some(numbers), unit));
        // Both are powers of two, so the quotient is exact.
        let scale = unit / lattice;
        let key = NoiseKey::new(key);
        AddNoise { sum, carried, n, key, step: lattice, deviation, scale, failed }
            .launch(&self.executor.device)
    }

    /// Turns a sum into what it stands for, in single precision.
    pub(super) fn convert(&mut self, sum: &mut CudaGradientSum) -> Result<(), CudaError> {
        self.finish(sum)?;
        let device = &self.executor.device;
        if let (Some(unit), Some(carried)) = (sum.unit(), sum.wide()) {
            ToSingle { sum: sum.values(), carried, unit, n: sum.len }.launch(device)?;
            sum.made_plain();
        }
        Ok(())
    }

    /// Updates the parameters on the card: adds noise to the sum, divides it by the expected batch, and takes the optimiser's step.
    ///
    /// # Guarantee
    /// The parameters change by a function of the noisy sum of [`CudaLoaded::add_noise`] alone. If sums are released together
    /// ([`CudaExecutor::correlate`]), that is the sum of this step and those before it, times their coefficients, and the gradient is what it
    /// has beyond what was learned before.
    ///
    /// # Errors
    /// Those of [`CudaLoaded::add_noise`], or if the state does not fit the rule, or sums are not to be released together. Then parameters and state are as before, unless the card
    /// itself failed.
    pub fn update(
        &mut self,
        mut sum: CudaGradientSum,
        state: &mut CudaState,
        update: &CudaUpdate<'_>,
    ) -> Result<(), CudaError> {
        let expected = update.rule.state_len(self.executor.layout.len());
        if state.lens != expected {
            let (expected, found) = (expected.0 + expected.1, state.lens.0 + state.lens.1);
            let what = "the optimiser's state".to_owned();
            return Err(EngineError::Length { what, expected, found }.into());
        }
        if update.numbers.len() != state.block_counts.len() {
            let (expected, found) = (state.block_counts.len(), update.numbers.len());
            let what = "the numbers of an update".to_owned();
            return Err(EngineError::Length { what, expected, found }.into());
        }
        match &update.noise {
            Some(noise) if state.correlated.is_some() => self.release(&mut sum, state, noise)?,
            Some(noise) => self.add_noise(&mut sum, state, noise)?,
            None => self.convert(&mut sum)?,
        }
        let CudaExecutor { device, model, inference, .. } = &*self.executor;
        let mut blocks = state.blocks.slice();
        for (&block_count, &rule) in state.block_counts.iter().zip(update.numbers) {
            let moved = UpdateValues {
                block_count,
                kind: code(update.rule),
                values: model.parameters(),
                sum: sum.values(),
                first: state.first.slice(),
                second: state.second.slice(),
                blocks: blocks.first(block_count),
                rule,
            };
            // SAFETY: the blocks cover a part of the layout of this graph, which is as long as the sum, and as the moments that the rule
            // has, which was checked.
            unsafe { moved.launch(device)? };
            blocks = blocks.after(block_count);
        }
        if let Some(mean) = &state.mean {
            let (values, n) = (model.parameters(), inference.steps.parameters_len);
            MoveMean { mean: mean.slice(), values, rest: update.mean_rest, n }.launch(device)?;
        }
        self.executor.spare = Some(sum.into_memory());
        self.executor.arrange()
    }

    /// Exchanges the parameters on the card and their running mean, to evaluate with the mean. A second call changes them back, and no update
    /// may run in between.
    ///
    /// # Errors
    /// If the card fails.
    pub fn exchange_mean(&mut self, state: &mut CudaState) -> Result<(), CudaError> {
        let CudaExecutor { device, model, inference, .. } = &*self.executor;
        let Some(mean) = &state.mean else { return Ok(()) };
        let n = inference.steps.parameters_len;
        Exchange { a: mean.slice(), b: model.parameters(), n }.launch(device)?;
        self.executor.arrange()
    }

    /// Fetches the parameters on the card.
    ///
    /// # Errors
    /// If the target belongs to another graph, or the card fails.
    pub fn fetch(&mut self, parameters: &mut Parameters) -> Result<(), CudaError> {
        let CudaExecutor { graph, device, model, whole, .. } = &mut *self.executor;
        if !parameters.fit(graph) {
            return Err(EngineError::Parameters.into());
        }
        whole.fetch(device, model.parameters(), parameters.values_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::zoo;

    #[test]
    fn blocks_cover_every_trainable_value_once() {
        let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        let layout = Layout::new(&graph);
        let parameters = Parameters::init(&graph, 1);
        let mut starts = vec![0; graph.parameters().len()];
        for entry in layout.entries() {
            starts[entry.id.index()] = parameters.range(entry.id).start;
        }
        let (mut seen, mut order) = (vec![0; layout.len()], Vec::new());
        let groups: Vec<usize> = (0..layout.entries().len()).map(|entry| entry % 3).collect();
        for block in (0..3).flat_map(|group| blocks(&layout, &starts, &groups, group)) {
            let (from, len, to) = (block.start as usize, block.len as usize, block.target as usize);
            let entry = layout.entries().iter().find(|entry| entry.range.contains(&from)).unwrap();
            assert_eq!(to - parameters.range(entry.id).start, from - entry.range.start);
            assert!(from + len <= entry.range.end);
            order.push(groups[layout.position(entry.id).unwrap()]);
            seen[from..from + len].iter_mut().for_each(|count| *count += 1);
        }
        assert!(seen.iter().all(|&count| count == 1));
        assert!(order.is_sorted(), "group by group");
    }

    #[test]
    fn a_key_is_not_shown() {
        let noise = LatticeNoise { key: &[0xab; 32], lattice: 0.5, deviation: 1500.0 };
        assert!(!format!("{noise:?}").contains("171"));
    }
}
