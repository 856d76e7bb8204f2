//! What the cards of a group do together, written so that tests can put something else in the place of a card.
//!
//! Cards work at the same time, and a group waits for all of them, even if one fails. Nothing that needs every card begins before every
//! card has said that its own part is done. So a card that fails leaves no other waiting for it.

use dapple_graph::Graph;

use super::super::{CudaError, CudaUpdate};
use super::share::shares;
use crate::batch::Batch;
use crate::clipping::ClippingRule;
use crate::cpu::Total;
use crate::stats::StepStats;

/// A card of a group.
pub(super) trait Rank: Send {
    /// The card's own sum of clipped gradients.
    type Sum: Send + Sync;
    /// What the optimiser remembers on the card.
    type State: Send;

    /// Adds the clipped gradients of the card's share to its own sum.
    fn clipped_sum(
        &mut self,
        share: &Batch<'_>,
        rule: &ClippingRule,
        sum: &mut Self::Sum,
    ) -> Result<StepStats, CudaError>;

    /// Waits until everything that was started has run, and says whether it failed.
    fn settle(&mut self) -> Result<(), CudaError>;

    /// Reads the card's own sum, before any projection.
    fn read(&mut self, sum: &mut Self::Sum) -> Result<Total, CudaError>;

    /// Replaces the card's own sum.
    fn write(&mut self, sum: &mut Self::Sum, total: &Total) -> Result<(), CudaError>;

    /// Adds noise, and takes the optimiser's step.
    fn update(
        &mut self,
        sum: Self::Sum,
        state: &mut Self::State,
        update: &CudaUpdate<'_>,
    ) -> Result<(), CudaError>;
}

/// A way to replace every card's sum by the sum over all cards, with the same bits on each.
pub(super) trait Addition<R: Rank> {
    fn add_up(&mut self, ranks: &mut [R], sums: &mut [R::Sum]) -> Result<(), Failed>;
}

/// What failed, and on which card of the list if it was a single one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failed {
    pub(super) rank: Option<usize>,
    pub(super) error: CudaError,
}

impl From<CudaError> for Failed {
    fn from(error: CudaError) -> Self {
        Self { rank: None, error }
    }
}

/// Does every card's work at the same time, and waits for all of it. Of several failures, that of the first card is reported.
pub(super) fn each<W: Send, T: Send>(
    work: impl IntoIterator<Item = W>,
    run: impl Fn(W) -> Result<T, CudaError> + Sync,
) -> Result<Vec<T>, Failed> {
    let work: Vec<W> = work.into_iter().collect();
    let run = &run;
    let results: Vec<Result<T, CudaError>> = match work.len() {
        // A card alone needs no thread of its own.
        0 | 1 => work.into_iter().map(run).collect(),
        _ => std::thread::scope(|scope| {
            let threads: Vec<_> = work.into_iter().map(|own| scope.spawn(move || run(own))).collect();
            let ended =
                || CudaError::Call { call: "running a card", reason: "its thread ended early".into() };
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(ended()))).collect()
        }),
    };
    let numbered = results.into_iter().enumerate();
    numbered.map(|(rank, result)| result.map_err(|error| Failed { rank: Some(rank), error })).collect()
}

/// Lets every card add the clipped gradients of its share to its own sum. The statistics are in the order of the batch.
///
/// # Guarantee
/// Every sample is in exactly one share, so it adds one vector of norm at most [`ClippingRule::sensitivity`] to all the sums together.
pub(super) fn clipped_sum<R: Rank>(
    ranks: &mut [R],
    graph: &Graph,
    batch: &Batch<'_>,
    rule: &ClippingRule,
    sums: &mut [R::Sum],
) -> Result<StepStats, Failed> {
    let shares = shares(batch, graph, ranks.len()).map_err(CudaError::from)?;
    let parts = each(ranks.iter_mut().zip(sums).zip(shares), |((rank, sum), share)| {
        rank.clipped_sum(&share.batch, rule, sum).map_err(|error| match error {
            CudaError::Engine(error) => share.in_batch(error).into(),
            other => other,
        })
    })?;
    let mut stats = StepStats::default();
    for part in parts {
        stats.join(part);
    }
    Ok(stats)
}

/// Adds the sums, once every card has said that its own is complete.
pub(super) fn add_up<R: Rank>(
    ranks: &mut [R],
    sums: &mut [R::Sum],
    addition: &mut impl Addition<R>,
) -> Result<(), Failed> {
    each(ranks.iter_mut(), Rank::settle)?;
    addition.add_up(ranks, sums)
}

/// Lets every card make the same noisy sum from the same numbers and the same key, and take the same step.
pub(super) fn update<R: Rank>(
    ranks: &mut [R],
    sums: Vec<R::Sum>,
    states: &mut [R::State],
    update: &CudaUpdate<'_>,
) -> Result<(), Failed> {
    each(ranks.iter_mut().zip(sums).zip(states), |((rank, sum), state)| rank.update(sum, state, update))?;
    Ok(())
}

/// Adds in the host's memory, in the order of the cards. This is slower than over the cards' own links, but needs no library.
#[derive(Debug)]
pub(super) struct OnHost;

impl<R: Rank> Addition<R> for OnHost {
    fn add_up(&mut self, ranks: &mut [R], sums: &mut [R::Sum]) -> Result<(), Failed> {
        let mut parts = each(ranks.iter_mut().zip(&mut *sums), |(rank, sum)| rank.read(sum))?.into_iter();
        let Some(mut whole) = parts.next() else { return Ok(()) };
        for part in parts {
            whole.add(&part).map_err(CudaError::from)?;
        }
        each(ranks.iter_mut().zip(sums), |(rank, sum)| rank.write(sum, &whole))?;
        Ok(())
    }
}
