//! What an executor is given: samples with their views and their targets.

use std::ops::Range;

use dapple_graph::op::Dropout;
use dapple_graph::{DropoutUnits, Graph, IGNORED, Loss};
use rayon::prelude::*;

use crate::error::EngineError;

/// How many values a thread looks through at a time.
const CHUNK: usize = 1 << 16;

/// The targets of a batch, one for each view.
#[derive(Debug, Clone, Copy)]
pub enum Targets<'a> {
    /// One class for each view, or for each position of a view if the output has positions. [`IGNORED`] marks a position without a label.
    Classes(&'a [u32]),
    /// Class probabilities in the shape of the output.
    Probabilities(&'a [f32]),
    /// Values in the shape of the output, for the squared error.
    Values(&'a [f32]),
}

/// The target of one view.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ViewTarget<'a> {
    Classes(&'a [u32]),
    Probabilities(&'a [f32]),
    Values(&'a [f32]),
}

/// Where dropout takes its randomness from: the seed of the step, and the records that the samples are. So what dropout does to a sample
/// follows from its record and the view, and not from which other records were drawn or where the sample lies in the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropoutSource<'a> {
    /// The seed of the step.
    pub seed: u64,
    /// The record of each sample.
    pub records: &'a [usize],
}

/// Which units of the dropout layers at one half each sample keeps, drawn by the caller. All views of a sample share its mask.
///
/// A guarantee may rest on these coins, unlike on those that follow from a [`DropoutSource`]: so they must be fair, independent, secret and
/// drawn anew for each record and step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitMasks<'a> {
    /// The units of the graph.
    pub units: &'a DropoutUnits,
    /// Whether each unit is kept, `[samples, units]`.
    pub kept: &'a [bool],
}

/// What a dropout layer does to one view.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodeDropout<'a> {
    /// Nothing.
    Off,
    /// It drops by the key of the view.
    Keyed(u64),
    /// It keeps these of its units.
    Masked(&'a [bool]),
}

impl NodeDropout<'_> {
    /// Whether an element or a channel of the layer is kept, by its number.
    #[inline]
    pub(crate) fn keeps(self, layer: &Dropout, unit: usize) -> bool {
        match self {
            Self::Off => true,
            Self::Keyed(key) => keeps(key, layer.number, unit, layer.rate),
            Self::Masked(kept) => kept[unit],
        }
    }
}

/// A batch: sample after sample, each with all its views, each view in the row-major order of the input shape.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The inputs, `[samples, views, input..]`.
    pub inputs: &'a [f32],
    /// The targets, one for each view.
    pub targets: Targets<'a>,
    /// The number of views of each sample. A sample's gradient is the mean over its views.
    pub views: usize,
    /// The randomness of dropout; `None` switches dropout off, but for layers that have masks.
    pub dropout: Option<DropoutSource<'a>>,
    /// Which of the executor's submodels the samples go through; `None` for the whole model.
    pub submodel: Option<usize>,
    /// Masks of the dropout layers at one half, in the place of that randomness.
    pub masks: Option<UnitMasks<'a>>,
}

impl<'a> Batch<'a> {
    /// A batch for the whole model, with one view of each sample and no dropout.
    pub fn new(inputs: &'a [f32], targets: Targets<'a>) -> Self {
        Self { inputs, targets, views: 1, dropout: None, submodel: None, masks: None }
    }

    /// Checks every length and every class, and returns the number of samples. Numbers that are not finite are let through: if they reach
    /// the gradient of their sample, that is not finite either, and the sample adds nothing.
    pub(crate) fn check(&self, graph: &Graph) -> Result<usize, EngineError> {
        let samples = self.sizes(graph)?;
        self.check_classes(graph, 0..samples)?;
        Ok(samples)
    }

    /// Checks every length, but no value yet, and returns the number of samples.
    pub(crate) fn sizes(&self, graph: &Graph) -> Result<usize, EngineError> {
        let samples = count(graph, self.inputs, self.views)?;
        let views = samples * self.views;
        let output: usize = graph.output_shape().iter().product();
        let (found, expected, kind) = match self.targets {
            Targets::Classes(classes) => (classes.len(), views * positions(graph), "classes"),
            Targets::Probabilities(values) => (values.len(), views * output, "probabilities"),
            Targets::Values(values) => (values.len(), views * output, "values"),
        };
        match (graph.loss(), self.targets) {
            (Loss::CrossEntropy { .. }, Targets::Values(_)) => {
                return Err(EngineError::Targets { expected: "classes or probabilities", found: kind });
            }
            (Loss::SquaredError, Targets::Classes(_) | Targets::Probabilities(_)) => {
                return Err(EngineError::Targets { expected: "values", found: kind });
            }
            _ => {}
        }
        if found != expected {
            return Err(EngineError::Length { what: format!("target {kind}"), expected, found });
        }
        if let Some(found) = self.dropout.map(|dropout| dropout.records.len()).filter(|&len| len != samples) {
            return Err(EngineError::Length { what: "records".into(), expected: samples, found });
        }
        if self.masks.is_some() && self.submodel.is_some() {
            return Err(EngineError::Masks);
        }
        if let Some(UnitMasks { units, kept }) = self.masks {
            let expected = samples * graph.dropout_units().len();
            if kept.len() != expected || *units != graph.dropout_units() {
                return Err(EngineError::Length { what: "masks".into(), expected, found: kept.len() });
            }
        }
        Ok(samples)
    }

    /// Checks the classes of some samples. All lengths must have been checked.
    pub(crate) fn check_classes(&self, graph: &Graph, samples: Range<usize>) -> Result<(), EngineError> {
        let Targets::Classes(classes) = self.targets else { return Ok(()) };
        let (each, bound) = (positions(graph) * self.views, graph.output_shape()[0]);
        let classes = &classes[samples.start * each..samples.end * each];
        match first_unlike(classes, |&class| (class == IGNORED) | ((class as usize) < bound)) {
            Some(index) => {
                let (sample, class) = (samples.start + index / each, classes[index]);
                Err(EngineError::Class { sample, class, classes: bound })
            }
            None => Ok(()),
        }
    }

    /// The target of one view; `view` counts through all samples.
    pub(crate) fn target(&self, graph: &Graph, view: usize) -> ViewTarget<'a> {
        let output: usize = graph.output_shape().iter().product();
        let positions = positions(graph);
        match self.targets {
            Targets::Classes(classes) => ViewTarget::Classes(&classes[view * positions..][..positions]),
            Targets::Probabilities(values) => ViewTarget::Probabilities(&values[view * output..][..output]),
            Targets::Values(values) => ViewTarget::Values(&values[view * output..][..output]),
        }
    }

    /// What the dropout layer at a node does to one view; `view` counts through all samples.
    ///
    /// # Guarantee
    /// Where the layer has a mask, it follows from the sample alone: all views of a sample keep the same units.
    pub(crate) fn node_dropout(&self, view: usize, node: usize) -> NodeDropout<'a> {
        let masked = self.masks.and_then(|UnitMasks { units, kept }| {
            let layer = units.of(node)?;
            Some(&kept[view / self.views * units.len() + layer.first..][..layer.count])
        });
        match (masked, self.dropout_key(view)) {
            (Some(kept), _) => NodeDropout::Masked(kept),
            (None, Some(key)) => NodeDropout::Keyed(key),
            (None, None) => NodeDropout::Off,
        }
    }

    /// The key of one view's dropout; `view` counts through all samples.
    ///
    /// # Guarantee
    /// The key is a function of the step's seed, the sample's record and the number of the view among the sample's own, so that each view of
    /// a record has a key of its own.
    pub(crate) fn dropout_key(&self, view: usize) -> Option<u64> {
        let DropoutSource { seed, records } = self.dropout?;
        let (record, own) = (records[view / self.views] as u64, (view % self.views) as u64);
        let index = record.wrapping_mul(self.views as u64).wrapping_add(own);
        Some(mix(seed ^ mix(index)))
    }
}

/// Checks that every value of a slice of inputs is finite, and returns the number of samples.
pub(crate) fn samples(graph: &Graph, inputs: &[f32], views: usize) -> Result<usize, EngineError> {
    let samples = count(graph, inputs, views)?;
    match first_unlike(inputs, |value| value.is_finite()) {
        Some(index) => {
            Err(EngineError::NotFinite { place: "input".into(), sample: index / (inputs.len() / samples) })
        }
        None => Ok(samples),
    }
}

/// Returns the number of samples in a slice of inputs, if its length fits.
fn count(graph: &Graph, inputs: &[f32], views: usize) -> Result<usize, EngineError> {
    let input: usize = graph.input_shape().iter().product();
    let size = input * views.max(1);
    if views == 0 || !inputs.len().is_multiple_of(size) {
        let expected = inputs.len().next_multiple_of(size);
        return Err(EngineError::Length { what: "input".into(), expected, found: inputs.len() });
    }
    Ok(inputs.len() / size)
}

/// The first value that is not good. A chunk is always looked through to its end, because without an early exit the compiler can look at
/// many values at once.
fn first_unlike<T: Sync>(values: &[T], good: impl Fn(&T) -> bool + Sync) -> Option<usize> {
    let chunk = values
        .par_chunks(CHUNK)
        .position_first(|chunk| !chunk.iter().fold(true, |all, value| all & good(value)))?;
    let rest = values[chunk * CHUNK..].iter().position(|value| !good(value))?;
    Some(chunk * CHUNK + rest)
}

fn positions(graph: &Graph) -> usize {
    graph.output_shape()[1..].iter().product()
}

/// Whether dropout keeps an element, which follows from the view's key, the layer's number and the element's row-major index.
#[inline]
pub(crate) fn keeps(key: u64, layer: usize, element: usize, rate: f32) -> bool {
    let hash = mix(key ^ ((layer as u64) << 40) ^ element as u64);
    (hash >> 40) as f32 >= rate * (1u64 << 24) as f32
}

/// The finaliser of SplitMix64, used as a hash. It is good enough to drop activations, and no privacy claim rests on it.
#[inline]
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
