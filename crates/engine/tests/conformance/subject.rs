//! The executors that are held to the laws, and how near to exact arithmetic each of them is.

#[cfg(feature = "cuda")]
use dapple_engine::cuda::{CudaExecutor, CudaGradientSum, CudaLoaded, CudaOptions, Precision};
use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{
    Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, GradientSum, Layout, Loaded, StepStats, Total,
};
use dapple_graph::{Graph, Parameters};

/// An executor with its options.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject {
    /// Double precision, one sample after the other.
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
    /// Outputs, losses and gradients that are not clipped, as a share of the largest.
    pub(crate) plain: f64,
    /// Norms above the exact one, and what is clipped by them, as a share of the largest. Norms are upper bounds: where a gradient is never
    /// written down, they include what its sum may be rounded by.
    pub(crate) raised: f64,
    /// Norms below the exact one, as a share of it.
    pub(crate) lowered: f64,
    /// Units that rounding to whole ones moves a coordinate by, for each sample and once more behind a projection.
    pub(crate) units: f64,
}

/// What a subject makes of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// The clipped sum; what single precision holds is exact here.
    pub(crate) gradient: Vec<f64>,
    /// Losses and norms.
    pub(crate) stats: StepStats,
}

impl Step {
    /// The Euclidean length of the sum.
    pub(crate) fn length(&self) -> f64 {
        length(self.gradient.iter().copied())
    }
}

/// The Euclidean length.
pub(crate) fn length(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// The length of a difference.
#[cfg(feature = "cuda")]
pub(crate) fn apart(one: &[f64], other: &[f64]) -> f64 {
    length(one.iter().zip(other).map(|(one, other)| one - other))
}

/// The same numbers with more digits.
pub(crate) fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

impl Subject {
    /// The processor with so many threads.
    pub(crate) const fn threads(threads: usize) -> Self {
        Self::Cpu(CpuOptions { threads, group: 0, memory: 0, checkpoints: false })
    }

    /// Whether it runs on a card.
    pub(crate) fn on_card(self) -> bool {
        !matches!(self, Self::Reference | Self::Cpu(_))
    }

    /// For batches of so many samples, which a card plans for.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables, reason = "only cards plan"))]
    pub(crate) fn planned_for(self, samples: usize) -> Self {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda(options) => Self::Cuda(CudaOptions { batch: samples, ..options }),
            other => other,
        }
    }

    /// With the options of a random case: threads, and samples that run together.
    pub(crate) fn with(self, options: CpuOptions) -> Self {
        match self {
            Self::Reference => self,
            Self::Cpu(_) => Self::Cpu(options),
            #[cfg(feature = "cuda")]
            Self::Cuda(own) => Self::Cuda(CudaOptions { microbatch: options.group, ..own }),
        }
    }

    /// An executor for a graph.
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

    /// One batch with an executor of its own.
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

    /// How far it may be from exact arithmetic.
    pub(crate) fn tolerance(self) -> Tolerance {
        match self {
            // Double precision, of which losses and norms are told in single precision.
            Self::Reference => Tolerance { plain: 1e-7, raised: 1e-7, lowered: 1e-7, units: 0.0 },
            // Single precision rounds by 6e-8, and the longest sums have a few hundred terms. Norms include what single precision may move
            // a gradient by, 6e-8 for each of at most some hundred positions times how much these cancel.
            Self::Cpu(_) => Tolerance { plain: 1e-5, raised: 1e-4, lowered: 1e-5, units: 0.5 },
            // Products are split into three on the tensor cores, which leaves 2^-21 of each, and sums of them are cut off rather than
            // rounded. Norms of layers whose gradients are never written down are raised by `(positions + 8) 2^-20` of the sizes of what
            // they are made of: for 64 positions, of which each adds to the norm independently, by 6e-4 of it. Cards are also compared with
            // the processor, which rounds to whole units itself.
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => Tolerance { plain: 1e-4, raised: 1e-3, lowered: 1e-4, units: 1.0 },
        }
    }

    /// Most that a factor of a product is moved by: the tensor cores cut TF32 off at 11 bits, and bf16 is rounded at 8.
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

/// A subject that was made ready for a graph.
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

    /// A rule that fits.
    pub(crate) fn rule(&self, clipping: &Clipping) -> ClippingRule {
        crate::common::rule(clipping, self.layout())
    }

    /// Outputs of all samples.
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

    /// The clipped sum of several batches, one call for each.
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

/// Adds up batches, and makes of the sum what is asked for.
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

/// The same on a card.
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
