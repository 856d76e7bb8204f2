//! What only changes speed and memory.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `[performance]`: nothing here can change epsilon, and nothing here is hashed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Performance {
    /// Worker threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Records computed at once.
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
            device: over.device.or(self.device),
            precision: over.precision.or(self.precision),
        }
    }
}

/// Where gradients are computed: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum DeviceChoice {
    /// The first GPU where one can be used, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The GPU of this number, from 0.
    Cuda(u32),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Cpu => formatter.write_str("cpu"),
            Self::Cuda(number) => write!(formatter, "cuda:{number}"),
        }
    }
}

/// A word that names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no device; give auto, cpu, cuda or cuda:N")]
pub struct NoSuchDevice(String);

impl FromStr for DeviceChoice {
    type Err = NoSuchDevice;

    fn from_str(text: &str) -> Result<Self, NoSuchDevice> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let number = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                number.map(Self::Cuda).ok_or_else(|| NoSuchDevice(text.to_owned()))
            }
        }
    }
}

impl Serialize for DeviceChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
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
    fn devices_are_read_and_written_by_name() {
        for (text, device) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda", DeviceChoice::Cuda(0)),
            ("cuda:7", DeviceChoice::Cuda(7)),
        ] {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:1.5", "CUDA", "cpu:0", "cuda: 1"] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_plan_holds_them_and_refuses_others() {
        let mut spec = PlanSpec::default();
        spec.set("performance.device", "cuda:1").unwrap();
        spec.set("performance.precision", "bf16").unwrap();
        assert_eq!(spec.performance.device, Some(DeviceChoice::Cuda(1)));
        assert_eq!(spec.performance.precision, Some(FactorPrecision::Bf16));
        assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
        let error = spec.set("performance.device", "tpu").unwrap_err();
        assert_eq!(
            error.to_string(),
            "performance.device: \"tpu\" is no device; give auto, cpu, cuda or cuda:N"
        );
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
