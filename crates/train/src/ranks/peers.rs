//! How ranks add up their parts of a step.

use dapple_engine::{JointNumbers, StepStats};
use dapple_private::{Peers, StepError};

use super::RankGroup;

impl Peers for RankGroup {
    fn report(&self, own: Result<StepStats, StepError>, mark: u64) -> Result<StepStats, StepError> {
        let said = own.as_ref().map(|stats| to_bytes(stats, mark)).map_err(ToString::to_string);
        // A rank that failed knows more of its failure than what it told the others.
        let all = self.exchange(said);
        own?;
        let mut together = StepStats::default();
        for (rank, bytes) in all?.iter().enumerate() {
            let failed = |problem: &str| StepError::Rank { rank, problem: problem.to_owned() };
            let (stats, its_mark) =
                from_bytes(bytes).ok_or_else(|| failed("it speaks of a step in another way"))?;
            if its_mark != mark {
                return Err(failed("its parameters, or its clip norm, are not those of this rank"));
            }
            together.join(stats);
        }
        Ok(together)
    }

    fn confirm(&self, own: Result<(), StepError>) -> Result<(), StepError> {
        let all = self.exchange(own.as_ref().map(|()| Vec::new()).map_err(ToString::to_string));
        own?;
        all.map(drop)
    }

    fn add(&self, numbers: JointNumbers<'_>) {
        match numbers {
            JointNumbers::Narrow(numbers) => self.world.add_narrow(numbers),
            JointNumbers::Wide(numbers) => self.world.add_wide(numbers),
            JointNumbers::Plain(numbers) => self.world.add_plain(numbers),
        }
    }
}

/// What a step reports: the mark, two counts, and the losses and norms of equally many samples.
fn to_bytes(stats: &StepStats, mark: u64) -> Vec<u8> {
    let counts = [mark, stats.not_finite as u64, stats.unclipped as u64, stats.losses.len() as u64];
    let values = stats.losses.iter().chain(&stats.norms).flat_map(|value| value.to_le_bytes());
    counts.iter().flat_map(|count| count.to_le_bytes()).chain(values).collect()
}

fn from_bytes(bytes: &[u8]) -> Option<(StepStats, u64)> {
    let (counts, values) = bytes.split_at_checked(32)?;
    let mut counts = counts.as_chunks::<8>().0.iter().map(|count| u64::from_le_bytes(*count));
    let mut count = || counts.next();
    let (mark, not_finite, unclipped, samples) = (count()?, count()?, count()?, count()?);
    let (values, rest) = values.as_chunks::<4>();
    let values: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    let (losses, norms) = values.split_at_checked(usize::try_from(samples).ok()?)?;
    let stats = StepStats {
        losses: losses.to_vec(),
        norms: norms.to_vec(),
        not_finite: usize::try_from(not_finite).ok()?,
        unclipped: usize::try_from(unclipped).ok()?,
    };
    (rest.is_empty() && stats.norms.len() == stats.losses.len()).then_some((stats, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_arrive_as_they_were_sent() {
        let stats = StepStats {
            losses: vec![0.1, f32::INFINITY],
            norms: vec![3.0, 1e-30],
            not_finite: 1,
            unclipped: 7,
        };
        for stats in [StepStats::default(), stats] {
            let bytes = to_bytes(&stats, u64::MAX - 3);
            assert_eq!(from_bytes(&bytes), Some((stats.clone(), u64::MAX - 3)));
            for cut in 0..bytes.len() {
                assert_eq!(from_bytes(&bytes[..cut]), None);
            }
        }
    }
}
