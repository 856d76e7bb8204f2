//! One setting of the paper as a plan, and the mechanisms it is seen through.

use clap::ValueEnum;
use dapple_accounting::baselines;
use dapple_geometry::{Mask, Region, RegionPart, Size};
use dapple_plan::spec::{Delta, Pixels};
use dapple_plan::{Plan, PlanSpec, Pld, Relation, Scheme, number};

use crate::error::{ReproduceError, Result};

/// Records a step (patch-level paper, P, appendix C.4).
pub(crate) const BATCH: u64 = 100;
/// Passes over the data set (P appendix C.4).
pub(super) const EPOCHS: u64 = 100;
/// Beyond this the epochs are more steps than the accountant takes.
pub(crate) const MAX_RECORDS: u64 = 10_000_000;
/// The delta at which an epsilon is read off.
pub(super) const DELTA: f64 = 1e-5;
/// The clip norm of the paper's accounting figures (P appendix C.4).
pub(super) const CLIP_NORM: f64 = 2.0;
/// Colour images.
const CHANNELS: u32 = 3;

/// What the paper's sigma stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reading {
    /// The standard deviation of the noise, at clip norm 2: as the paper's figures were computed
    Std,
    /// A noise multiplier, in clip norms: as the paper's text says
    Multiplier,
}

impl Reading {
    /// The noise multiplier, in clip norms, of the paper's sigma.
    pub(super) fn multiplier(self, sigma: f64) -> f64 {
        match self {
            Self::Std => sigma / CLIP_NORM,
            Self::Multiplier => sigma,
        }
    }

    /// The conversion in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Std => {
                "The paper's σ is taken as the standard deviation of the noise at clip norm 2 (sensitivity 4), so the noise multiplier is σ / 2; --sigma-is multiplier takes it as a multiplier."
            }
            Self::Multiplier => {
                "The paper's σ is taken as a noise multiplier, as its text says; its figures were computed with σ as the standard deviation at clip norm 2, which is --sigma-is std."
            }
        }
    }
}

/// The private region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PrivateShape {
    Rectangle(u32, u32),
    Circle(f64),
    /// Two circles of this radius, the second moved by this many columns and rows.
    Blob {
        radius: f64,
        offset: (u32, u32),
    },
}

impl PrivateShape {
    fn region(self) -> Result<Region> {
        let failed = |error| self.failed(&error);
        Ok(match self {
            Self::Rectangle(width, height) => Region::Rectangle(Size::new(width, height).map_err(failed)?),
            Self::Circle(radius) => Region::Circle { radius },
            Self::Blob { radius, offset: (x, y) } => Region::Union(vec![
                RegionPart { x: 0, y: 0, region: Region::Circle { radius } },
                RegionPart { x, y, region: Region::Circle { radius } },
            ]),
        })
    }

    /// The private pixels.
    fn mask(self) -> Result<Mask> {
        self.region()?.to_mask().map_err(|error| self.failed(&error))
    }

    fn failed(self, error: &dapple_geometry::GeometryError) -> ReproduceError {
        ReproduceError::failed(format!("the region {self}: {error}"))
    }
}

impl std::fmt::Display for PrivateShape {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rectangle(width, height) => write!(formatter, "{width}x{height}"),
            Self::Circle(radius) => write!(formatter, "circle {}", number::exact(*radius)),
            Self::Blob { radius, offset: (x, y) } => {
                write!(formatter, "circles {} at 0,0 and {x},{y}", number::exact(*radius))
            }
        }
    }
}

/// One point of a figure, in the paper's terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PatchSetting {
    pub(super) image: Pixels,
    pub(super) crop: u32,
    pub(super) padding: u32,
    pub(super) shape: PrivateShape,
    /// The paper's sigma; see [`Reading`].
    pub(super) sigma: f64,
    /// Noise on the pixels, for the data-level baseline.
    pub(super) pixel_sigma: f64,
    pub(super) records: u64,
}

impl PatchSetting {
    /// The plan of this setting.
    pub(super) fn plan(&self, reading: Reading, scheme: Scheme) -> Result<Plan> {
        let mut spec = PlanSpec::default();
        let square = |side| Some(Pixels { x: side, y: side });
        spec.privacy.relation = Some(Relation::Patch);
        spec.privacy.delta = Some(Delta::Value(DELTA));
        spec.privacy.noise_multiplier = Some(reading.multiplier(self.sigma));
        spec.pipeline.image = Some(self.image);
        spec.pipeline.crop = square(self.crop);
        spec.pipeline.pad = square(self.padding);
        spec.sampling.scheme = Some(scheme);
        spec.sampling.batch = Some(BATCH);
        spec.sampling.records = Some(self.records);
        spec.sampling.epochs = Some(EPOCHS);
        let mut masks = Vec::new();
        match self.shape {
            PrivateShape::Rectangle(x, y) => spec.region.patch = Some(Pixels { x, y }),
            PrivateShape::Circle(radius) => spec.region.circle = Some(radius),
            PrivateShape::Blob { .. } => {
                spec.region.mask = Some("two circles".to_owned());
                masks.push(self.shape.mask()?);
            }
        }
        Ok(Plan::check_with_masks(&spec, &masks)?)
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// One region of one image substituted; crops and sampling amplify.
    Patch(Scheme),
    /// One record substituted; sampling alone amplifies.
    Minibatch(Scheme),
    /// Noise on the pixels, once.
    DataLevel,
}

impl Mechanism {
    /// The mechanisms of DP-SGD, the paper's sampling first.
    pub(super) const TRAINING: [Self; 4] = [
        Self::Patch(Scheme::WithoutReplacement),
        Self::Patch(Scheme::Poisson),
        Self::Minibatch(Scheme::WithoutReplacement),
        Self::Minibatch(Scheme::Poisson),
    ];

    /// The name in tables and files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Patch(_) => "patch",
            Self::Minibatch(_) => "minibatch",
            Self::DataLevel => "data-level noise",
        }
    }

    pub(super) fn scheme(self) -> Option<Scheme> {
        match self {
            Self::Patch(scheme) | Self::Minibatch(scheme) => Some(scheme),
            Self::DataLevel => None,
        }
    }

    /// A setting seen through this mechanism.
    pub(super) fn price(self, setting: &PatchSetting, reading: Reading) -> Result<PricedMechanism> {
        let priced = |plan: &Plan| -> Result<PricedMechanism> {
            Ok(PricedMechanism {
                pld: plan.pld()?,
                run: Some(RunSampling {
                    inclusion_probability: plan.inclusion_probability(),
                    effective_rate: plan.effective_rate(),
                    steps: plan.steps(),
                }),
            })
        };
        match self {
            Self::Patch(scheme) => priced(&setting.plan(reading, scheme)?),
            Self::Minibatch(scheme) => priced(&setting.plan(reading, scheme)?.at_relation(Relation::Replace)),
            Self::DataLevel => {
                let pixels = setting.shape.mask()?.count();
                let pld = baselines::data_level_noise(pixels, CHANNELS, setting.pixel_sigma)?;
                Ok(PricedMechanism { pld, run: None })
            }
        }
    }
}

/// A mechanism ready to be asked.
#[derive(Debug, Clone)]
pub(super) struct PricedMechanism {
    pub(super) pld: Pld,
    /// `None` where nothing is trained.
    pub(super) run: Option<RunSampling>,
}

/// How a training run samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunSampling {
    pub(super) inclusion_probability: f64,
    pub(super) effective_rate: f64,
    pub(super) steps: u64,
}
