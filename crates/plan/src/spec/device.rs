//! Names of the devices on which gradients are computed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where gradients are computed: `auto`, `cpu`, `cuda`, `cuda:N`, several cards `cuda:N,M`, or `cuda:all`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub enum DeviceChoice {
    /// The first GPU if one can be used, and otherwise the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The GPU of this number, from 0.
    Cuda(u32),
    /// Several GPUs of one machine, which share every batch.
    Cards(CardList),
    /// All GPUs of the machine.
    AllCards,
}

impl DeviceChoice {
    /// Whether the choice must be a GPU.
    #[must_use]
    pub fn needs_gpu(&self) -> bool {
        match self {
            Self::Auto | Self::Cpu => false,
            Self::Cuda(_) | Self::Cards(_) | Self::AllCards => true,
        }
    }

    /// The same choice with only the first card of several.
    #[must_use]
    pub fn first(&self) -> Self {
        match self {
            Self::Auto => Self::Auto,
            Self::Cpu => Self::Cpu,
            Self::Cuda(number) => Self::Cuda(*number),
            Self::Cards(cards) => Self::Cuda(cards.first),
            Self::AllCards => Self::Cuda(0),
        }
    }
}

/// Two or more different cards, in the order given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CardList {
    first: u32,
    others: Vec<u32>,
}

impl CardList {
    /// The cards' numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        [self.first].into_iter().chain(self.others.iter().copied())
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Cpu => formatter.write_str("cpu"),
            Self::Cuda(number) => write!(formatter, "cuda:{number}"),
            Self::Cards(CardList { first, others }) => {
                write!(formatter, "cuda:{first}")?;
                others.iter().try_for_each(|number| write!(formatter, ",{number}"))
            }
            Self::AllCards => formatter.write_str("cuda:all"),
        }
    }
}

/// A word that names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchDevice {
    /// A word that is not the name of a device.
    #[error("{0:?} is no device; give auto, cpu, cuda, cuda:N, cuda:N,M.. or cuda:all")]
    Unknown(String),
    /// A list that names a card twice.
    #[error("{list:?} names card {card} twice; name every card once")]
    Twice {
        /// The list.
        list: String,
        /// The card.
        card: u32,
    },
}

impl FromStr for DeviceChoice {
    type Err = NoSuchDevice;

    fn from_str(text: &str) -> Result<Self, NoSuchDevice> {
        let unknown = || NoSuchDevice::Unknown(text.to_owned());
        match text {
            "auto" => return Ok(Self::Auto),
            "cpu" => return Ok(Self::Cpu),
            "cuda" => return Ok(Self::Cuda(0)),
            "cuda:all" => return Ok(Self::AllCards),
            _ => {}
        }
        let list = text.strip_prefix("cuda:").ok_or_else(unknown)?;
        let number = |word: &str| word.parse::<u32>().map_err(|_| unknown());
        let mut numbers = Vec::new();
        for card in list.split(',') {
            let card = number(card)?;
            if numbers.contains(&card) {
                return Err(NoSuchDevice::Twice { list: text.to_owned(), card });
            }
            numbers.push(card);
        }
        match numbers.split_first() {
            None => Err(unknown()),
            Some((&only, [])) => Ok(Self::Cuda(only)),
            Some((&first, others)) => Ok(Self::Cards(CardList { first, others: others.to_vec() })),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanSpec;

    fn cards(first: u32, others: &[u32]) -> DeviceChoice {
        DeviceChoice::Cards(CardList { first, others: others.to_vec() })
    }

    #[test]
    fn devices_are_read_and_written_by_name() {
        for (text, device, first) in [
            ("auto", DeviceChoice::Auto, "auto"),
            ("cpu", DeviceChoice::Cpu, "cpu"),
            ("cuda", DeviceChoice::Cuda(0), "cuda:0"),
            ("cuda:7", DeviceChoice::Cuda(7), "cuda:7"),
            ("cuda:0,1", cards(0, &[1]), "cuda:0"),
            ("cuda:3,0,2", cards(3, &[0, 2]), "cuda:3"),
            ("cuda:all", DeviceChoice::AllCards, "cuda:0"),
        ] {
            assert_eq!(text.parse(), Ok(device.clone()));
            assert_eq!(device.to_string().parse(), Ok(device.clone()));
            assert_eq!(device.first().to_string(), first);
            assert_eq!(device.needs_gpu(), text.starts_with("cuda"));
        }
        for text in [
            "",
            "gpu",
            "cuda:",
            "cuda:-1",
            "cuda:1.5",
            "CUDA",
            "cpu:0",
            "cuda: 1",
            "cuda:,",
            "cuda:0,",
            "cuda:0,,1",
            "cuda:0, 1",
            "cuda:0-3",
            "cuda:all,0",
            "cuda0",
            "cuda:0;1",
        ] {
            assert_eq!(text.parse::<DeviceChoice>(), Err(NoSuchDevice::Unknown(text.to_owned())));
        }
    }

    #[test]
    fn a_card_twice_is_told() {
        let error = "cuda:2,0,2".parse::<DeviceChoice>().unwrap_err();
        assert_eq!(error.to_string(), "\"cuda:2,0,2\" names card 2 twice; name every card once");
        assert!("cuda:1,01".parse::<DeviceChoice>().is_err());
    }

    #[test]
    fn a_plan_holds_them_and_refuses_others() {
        let mut spec = PlanSpec::default();
        for text in ["cuda:1", "cuda:1,0", "cuda:all"] {
            spec.set("performance.device", text).unwrap();
            assert_eq!(spec.performance.device, Some(text.parse().unwrap()));
            assert_eq!(PlanSpec::from_toml(&spec.to_toml()).unwrap(), spec);
        }
        let error = spec.set("performance.device", "tpu").unwrap_err();
        assert_eq!(
            error.to_string(),
            "performance.device: \"tpu\" is no device; give auto, cpu, cuda, cuda:N, cuda:N,M.. or cuda:all"
        );
    }
}
