//! The executors that are held to the laws, and how close to exact arithmetic each of them is.

#[cfg(feature = "cuda")]
use dapple_engine::cuda::{Convolutions, CudaExecutor, CudaGradientSum, CudaLoaded, CudaOptions, Precision};
use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{
    Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, GradientSum, Layout, Loaded, StepStats, Total,
};
use dapple_graph::{Graph, Parameters};

/// An executor with its options.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject {
    /// The reference, in double precision and one sample after the other.
    Reference,
    /// The processor.
    Cpu(CpuOptions),
    /// A card.
    #[cfg(feature = "cuda")]
    Cuda(CudaOptions),
}

/// How far a subject may be from exact arithmetic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    /// How far outputs, losses and gradients that are not clipped may be off, as a share of the largest.
    pub(crate) plain: f64,
    /// How far norms may be above the exact one, and gradients that are clipped by them off, as a share of the largest. Norms are upper
    /// bounds, and if a gradient is never written down, they include how much its sum may be rounded.
    pub(crate) raised: f64,
    /// How far norms may be below the exact one, as a share of it.
    pub(crate) lowered: f64,
    /// How many units rounding to whole units moves a coordinate, for each sample and once more after a projection.
    pub(crate) units: f64,
}

/// What a subject computes from a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// The clipped sum, which is wide enough for what any subject computes.
    pub(crate) gradient: Vec<f64>,
    /// The losses and norms.
    pub(crate) stats: StepStats,
}

impl Step {
    /// The Euclidean length of the sum.
    pub(crate) fn length(&self) -> f64 {
        length(self.gradient.iter().copied())
    }
}

/// The Euclidean length of a vector.
pub(crate) fn length(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// The length of the difference of two vectors.
pub(crate) fn apart(one: &[f64], other: &[f64]) -> f64 {
    length(one.iter().zip(other).map(|(one, other)| one - other))
}

/// The same numbers in double precision.
pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

impl Subject {
    /// The processor with this many threads.
    pub(crate) const fn threads(threads: usize) -> Self {
        Self::Cpu(CpuOptions { threads, group: 0, memory: 0, checkpoints: false })
    }

    /// Whether the subject runs on a card.
    pub(crate) fn on_card(self) -> bool {
        !matches!(self, Self::Reference | Self::Cpu(_))
    }

    /// Whether another executor with these options computes the same bits. One that measures which algorithms are fastest may choose
    /// others.
    pub(crate) fn repeats(self) -> bool {
        match self {
            Self::Reference | Self::Cpu(_) => true,
            #[cfg(feature = "cuda")]
            Self::Cuda(options) => options.convolutions == Convolutions::Own,
        }
    }

    /// The same subject for batches of this many samples, for which a card plans.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables, reason = "only cards plan"))]
    pub(crate) fn planned_for(self, samples: usize) -> Self {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda(options) => Self::Cuda(CudaOptions { batch: samples, ..options }),
            other => other,
        }
    }

    /// The same subject with the options of a random case: how many threads there are, and how many samples run together.
    pub(crate) fn with(self, options: CpuOptions) -> Self {
        match self {
            Self::Reference => self,
            Self::Cpu(_) => Self::Cpu(options),
            #[cfg(feature = "cuda")]
            Self::Cuda(own) => Self::Cuda(CudaOptions { microbatch: options.group, ..own }),
        }
    }

    /// Makes an executor for a graph.
    pub(crate) fn open(self, graph: &Graph) -> Opened<'_> {
        match self {
            Self::Reference => Opened::Reference(graph, Layout::new(graph)),
            Self::Cpu(options) => Opened::Cpu(Box::new(CpuExecutor::new(graph, options).unwrap())),
            #[cfg(feature = "cuda")]
            Self::Cuda(options) => {
                Opened::Cuda(Box::new(CudaExecutor::new(graph, options).expect("a card that works")))
            }
        }
    }

    /// Makes an executor for a graph and submodels of it, which the reference does not have.
    pub(crate) fn open_with<'g>(self, graph: &'g Graph, submodels: &[Graph]) -> Opened<'g> {
        let submodels = submodels.to_vec();
        match self {
            Self::Reference => panic!("the reference runs a submodel as a graph of its own"),
            Self::Cpu(options) => {
                Opened::Cpu(Box::new(CpuExecutor::with_submodels(graph, submodels, options).unwrap()))
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(options) => Opened::Cuda(Box::new(
                CudaExecutor::with_submodels(graph, submodels, options).expect("a card that works"),
            )),
        }
    }

    /// Runs one batch with an executor of its own.
    pub(crate) fn step(
        self,
        graph: &Graph,
        values: &Parameters,
        batch: &Batch<'_>,
        clipping: &Clipping,
    ) -> Step {
        let mut opened = self.open(graph);
        let rule = opened.rule(clipping);
        opened.step(values, batch, &rule)
    }

    /// How far the subject may be from exact arithmetic.
    pub(crate) fn tolerance(self) -> Tolerance {
        match self {
            // The reference computes in double precision, but reports losses and norms in single precision.
            Self::Reference => Tolerance { plain: 1e-7, raised: 1e-7, lowered: 1e-7, units: 0.0 },
            // Single precision rounds by 6e-8, and the longest sums have a few hundred terms. Norms include how far single precision may
            // move a gradient, which is 6e-8 for each of at most some hundred positions, times how much these cancel.
            Self::Cpu(_) => Tolerance { plain: 1e-5, raised: 1e-4, lowered: 1e-5, units: 0.5 },
            // Products are split into three on the tensor cores, which leaves an error of 2^-21 of each, and their sums are cut off rather
            // than rounded. Norms of layers whose gradients are never written down are raised by `(positions + 8) 2^-20` of the sizes of
            // what they are made of, which for 64 positions that add to the norm independently is 6e-4 of it. Cards are also compared with
            // the processor, which rounds to whole units itself.
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => Tolerance { plain: 1e-4, raised: 1e-3, lowered: 1e-4, units: 1.0 },
        }
    }

    /// How far a factor of a product is moved at most. The tensor cores cut TF32 off at 11 bits, and bf16 is rounded at 8.
    pub(crate) fn factor_rounding(self) -> f64 {
        match self {
            Self::Reference | Self::Cpu(_) => 0.0,
            #[cfg(feature = "cuda")]
            Self::Cuda(options) => match options.precision {
                Precision::F32 => 0.0,
                Precision::Tf32 => (-10f64).exp2(),
                Precision::Bf16 => (-9f64).exp2(),
            },
        }
    }
}

/// A subject with an executor for a graph.
pub(crate) enum Opened<'g> {
    Reference(&'g Graph, Layout),
    Cpu(Box<CpuExecutor>),
    #[cfg(feature = "cuda")]
    Cuda(Box<CudaExecutor>),
}

impl Opened<'_> {
    /// Where the trainable parameters lie.
    pub(crate) fn layout(&self) -> &Layout {
        match self {
            Self::Reference(_, layout) => layout,
            Self::Cpu(executor) => executor.layout(),
            #[cfg(feature = "cuda")]
            Self::Cuda(executor) => executor.layout(),
        }
    }

    /// The rule for this graph, which it must fit.
    pub(crate) fn rule(&self, clipping: &Clipping) -> ClippingRule {
        crate::common::rule(clipping, self.layout())
    }

    /// The outputs of all samples.
    pub(crate) fn forward(&mut self, values: &Parameters, inputs: &[f32]) -> Vec<f64> {
        match self {
            Self::Reference(graph, _) => {
                ReferenceExecutor::new(graph, values).unwrap().forward(inputs).unwrap()
            }
            Self::Cpu(executor) => wide(&executor.load(values).unwrap().forward(inputs).unwrap()),
            #[cfg(feature = "cuda")]
            Self::Cuda(executor) => wide(&executor.load(values).unwrap().forward(inputs).unwrap()),
        }
    }

    /// The clipped sum of a batch.
    pub(crate) fn step(&mut self, values: &Parameters, batch: &Batch<'_>, rule: &ClippingRule) -> Step {
        self.steps(values, std::slice::from_ref(batch), rule)
    }

    /// The clipped sum of several batches, with one call for each.
    pub(crate) fn steps(&mut self, values: &Parameters, batches: &[Batch<'_>], rule: &ClippingRule) -> Step {
        let (gradient, stats) = match self {
            Self::Reference(graph, layout) => {
                let reference = ReferenceExecutor::new(graph, values).unwrap();
                let (mut sum, mut stats) = (vec![0.0; layout.len()], StepStats::default());
                for batch in batches {
                    let (part, own) = reference.clipped_sum(batch, rule).unwrap();
                    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                    stats.join(own);
                }
                (sum, stats)
            }
            Self::Cpu(executor) => sum_on_cpu(executor, values, batches, rule, |loaded, sum| {
                wide(&loaded.gradient(sum).unwrap())
            }),
            #[cfg(feature = "cuda")]
            Self::Cuda(executor) => sum_on_card(executor, values, batches, rule, |loaded, sum| {
                wide(&loaded.gradient(sum).unwrap())
            }),
        };
        Step { gradient, stats }
    }

    /// The same sum in whole numbers.
    pub(crate) fn counts(
        &mut self,
        values: &Parameters,
        batches: &[Batch<'_>],
        rule: &ClippingRule,
    ) -> Vec<i64> {
        let (total, _): (Total, _) = match self {
            Self::Reference(..) => panic!("the reference adds up no whole numbers"),
            Self::Cpu(executor) => {
                sum_on_cpu(executor, values, batches, rule, |loaded, sum| loaded.total(sum).unwrap())
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(executor) => {
                sum_on_card(executor, values, batches, rule, |loaded, sum| loaded.total(sum).unwrap())
            }
        };
        total.counts().unwrap().0.collect()
    }
}

/// Adds up batches on the processor, and turns the sum into what is asked for.
fn sum_on_cpu<T>(
    executor: &mut CpuExecutor,
    values: &Parameters,
    batches: &[Batch<'_>],
    rule: &ClippingRule,
    finish: impl FnOnce(&mut Loaded<'_, '_>, GradientSum) -> T,
) -> (T, StepStats) {
    let mut sum = executor.gradient_sum();
    let mut loaded = executor.load(values).unwrap();
    let mut stats = StepStats::default();
    for batch in batches {
        stats.join(loaded.clipped_sum(batch, rule, &mut sum).unwrap());
    }
    (finish(&mut loaded, sum), stats)
}

/// Adds up batches on a card, and turns the sum into what is asked for.
#[cfg(feature = "cuda")]
fn sum_on_card<T>(
    executor: &mut CudaExecutor,
    values: &Parameters,
    batches: &[Batch<'_>],
    rule: &ClippingRule,
    finish: impl FnOnce(&mut CudaLoaded<'_>, CudaGradientSum) -> T,
) -> (T, StepStats) {
    let mut sum = executor.gradient_sum().unwrap();
    let mut loaded = executor.load(values).unwrap();
    let mut stats = StepStats::default();
    for batch in batches {
        stats.join(loaded.clipped_sum(batch, rule, &mut sum).unwrap());
    }
    (finish(&mut loaded, sum), stats)
}
