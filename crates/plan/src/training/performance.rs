//! What only changes speed and memory.

use crate::error::PlanError;
use crate::spec::{DeviceChoice, FactorPrecision, Performance, ProgressKind};

/// The most threads. More than any machine has are a mistake, and starting them takes minutes and gigabytes.
const MAX_THREADS: u32 = 1024;
/// Batches decoded ahead if the plan does not say.
const PREFETCH: usize = 2;
/// Seconds that ranks wait for each other if the plan does not say, and the most.
const PATIENCE: f64 = 300.0;
const MAX_PATIENCE: f64 = 1e6;

/// How a run uses its machine. Nothing here can change epsilon, and nothing here is hashed.
#[derive(Debug, Clone, PartialEq)]
pub struct PerformancePlan {
    /// Worker threads; 0 means one for each core.
    pub threads: usize,
    /// Records computed at once; `None` if memory decides.
    pub microbatch: Option<usize>,
    /// Batches decoded ahead.
    pub prefetch: usize,
    /// Where gradients are computed.
    pub device: DeviceChoice,
    /// How a GPU rounds the factors of products.
    pub precision: FactorPrecision,
    /// How many seconds ranks that share a run wait for each other before all of them end.
    pub patience: f64,
    /// How the run shows its progress.
    pub progress: ProgressKind,
}

impl PerformancePlan {
    /// Fills in what is not given.
    ///
    /// # Errors
    /// More threads than any machine has.
    pub fn check(spec: &Performance) -> Result<Self, PlanError> {
        let threads = spec.threads.unwrap_or(0);
        if threads > MAX_THREADS {
            return Err(PlanError::invalid(
                "performance.threads",
                format!("{threads} threads, more than {MAX_THREADS}"),
                "leave it out to have one for each core",
            ));
        }
        let patience = spec.patience.unwrap_or(PATIENCE);
        if !(patience > 0.0 && patience <= MAX_PATIENCE) {
            return Err(PlanError::invalid(
                "performance.patience",
                format!("{patience} seconds"),
                "give more than 0 and at most a million seconds",
            ));
        }
        let whole = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Ok(Self {
            threads: threads as usize,
            microbatch: spec.microbatch.map(whole),
            prefetch: spec.prefetch.map_or(PREFETCH, whole),
            device: spec.device.clone().unwrap_or_default(),
            precision: spec.precision.unwrap_or_default(),
            patience,
            progress: spec.progress.unwrap_or_default(),
        })
    }

    /// The same plan with only the first of several cards, for single images, which cards cannot share.
    #[must_use]
    pub fn on_one_card(&self) -> Self {
        Self { device: self.device.first(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_filled_in() {
        let plan = PerformancePlan::check(&Performance::default()).unwrap();
        assert_eq!((plan.threads, plan.microbatch, plan.prefetch), (0, None, 2));
        assert_eq!((plan.device, plan.progress), (DeviceChoice::Auto, ProgressKind::Auto));
        assert_eq!(plan.patience, 300.0);
        for seconds in [0.0, -1.0, 2e6, f64::NAN] {
            let spec = Performance { patience: Some(seconds), ..Performance::default() };
            assert!(PerformancePlan::check(&spec).is_err(), "{seconds}");
        }
        let most = Performance { threads: Some(MAX_THREADS), ..Performance::default() };
        assert_eq!(PerformancePlan::check(&most).unwrap().threads, 1024);
        let more = Performance { threads: Some(MAX_THREADS + 1), ..Performance::default() };
        let error = PerformancePlan::check(&more).unwrap_err();
        assert!(error.to_string().starts_with("performance.threads") && error.hint().is_some(), "{error}");
    }
}
