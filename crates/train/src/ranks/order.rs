//! What the first rank tells the others to do.

/// One thing that all ranks do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RankOrder {
    /// Get the records of the steps from this one on, and say whether the first of them can be read.
    Prepare(u64),
    /// Take this step, which was promised.
    Step(u64),
    /// Compare what was learned.
    Compare,
    /// Evaluate the model.
    Evaluate,
    /// The run ends here.
    End,
}

impl RankOrder {
    pub(super) fn to_bytes(self) -> [u8; 9] {
        let (kind, step) = match self {
            Self::Prepare(step) => (0, step),
            Self::Step(step) => (1, step),
            Self::Compare => (2, 0),
            Self::Evaluate => (3, 0),
            Self::End => (4, 0),
        };
        let mut bytes = [kind; 9];
        bytes[1..].copy_from_slice(&step.to_le_bytes());
        bytes
    }

    /// The order of these bytes. The ranks run the same program, so nothing else comes; if it did, the run would end.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let Some((kind, step)) = bytes.split_first() else { return Self::End };
        let Ok(step) = step.try_into().map(u64::from_le_bytes) else { return Self::End };
        match kind {
            0 => Self::Prepare(step),
            1 => Self::Step(step),
            2 => Self::Compare,
            3 => Self::Evaluate,
            _ => Self::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_sent() {
        use RankOrder::{Compare, End, Evaluate, Prepare, Step};
        for order in [Prepare(0), Prepare(u64::MAX), Step(1 << 40), Compare, Evaluate, End] {
            assert_eq!(RankOrder::from_bytes(&order.to_bytes()), order);
        }
        assert_eq!(RankOrder::from_bytes(&[]), End);
    }
}
