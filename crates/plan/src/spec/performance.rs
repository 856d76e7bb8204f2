//! What only changes speed and memory.

use serde::{Deserialize, Serialize};

use super::DeviceChoice;

/// `[performance]`: nothing here can change epsilon, and nothing here is hashed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Performance {
    /// Worker threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Records computed at once, on each card where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microbatch: Option<u64>,
    /// Batches decoded ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<u64>,
    /// Where gradients are computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceChoice>,
    /// How a GPU rounds the factors of products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<FactorPrecision>,
}

impl Performance {
    /// These settings with everything that `over` gives instead.
    #[must_use]
    pub fn merge(&self, over: &Self) -> Self {
        Self {
            threads: over.threads.or(self.threads),
            microbatch: over.microbatch.or(self.microbatch),
            prefetch: over.prefetch.or(self.prefetch),
            device: over.device.clone().or_else(|| self.device.clone()),
            precision: over.precision.or(self.precision),
        }
    }
}

/// How a GPU rounds the factors of products. Norms, sums, the noise and the optimiser are in single precision or better with each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactorPrecision {
    /// Not at all: single precision, as on the processor.
    #[default]
    F32,
    /// To 11 significant bits, with the range of single precision.
    Tf32,
    /// To 8 significant bits, with the range of single precision.
    Bf16,
}

impl FactorPrecision {
    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanSpec;

    #[test]
    fn a_plan_holds_them_and_refuses_others() {
        let mut spec = PlanSpec::default();
        spec.set("performance.precision", "bf16").unwrap();
        assert_eq!(spec.performance.precision, Some(FactorPrecision::Bf16));
        assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
        assert!(spec.set("performance.precision", "f16").is_err());
        for precision in [FactorPrecision::F32, FactorPrecision::Tf32, FactorPrecision::Bf16] {
            spec.set("performance.precision", precision.name()).unwrap();
            assert_eq!(spec.performance.precision, Some(precision));
        }
    }

    #[test]
    fn what_is_given_replaces_what_was() {
        let run = Performance { threads: Some(2), device: Some(DeviceChoice::Cpu), ..Performance::default() };
        let over = Performance { device: Some(DeviceChoice::Cuda(0)), ..Performance::default() };
        let merged = run.merge(&over);
        assert_eq!((merged.threads, merged.device), (Some(2), Some(DeviceChoice::Cuda(0))));
        assert_eq!(run.merge(&Performance::default()), run);
    }
}
