//! How many steps the ledger promises at once, and how many lie between two checkpoints.
//!
//! Both numbers can be read from public files. The time that a step takes tells how many records it drew, so neither may depend on a
//! clock: they follow from the plan, the model and the machine.

use dapple_graph::op::{Conv, Linear, TransposedConv};
use dapple_graph::{Graph, Op};

/// The most steps of one promise, and so the most that the ledger counts too many after a crash, beside those since the last checkpoint.
pub(crate) const LARGEST_BLOCK: u64 = 128;
/// The steps of a promise take about this many seconds, so that waiting for the disk is a small share of them.
const BLOCK_SECONDS: f64 = 0.5;
/// Blocks between two checkpoints, about half a minute's worth.
const BLOCKS_TO_CHECKPOINT: u64 = 64;
/// The first checkpoint is written after one in so many of the steps.
const FIRST_CHECKPOINT: u64 = 50;
/// Roughly how many products a thread of a processor and a card compute per second.
const THREAD_RATE: f64 = 2e10;
const CARD_RATE: f64 = 5e12;

/// What computes, as far as it matters for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// A processor with this many threads.
    Threads(usize),
    /// This many cards.
    Cards(usize),
}

/// Chooses the size of blocks by an estimate of how long steps take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    block: u64,
    largest: u64,
}

impl Pace {
    /// The pace for steps of this many products. It begins with single steps.
    pub(crate) fn new(products: f64, engine: Engine) -> Self {
        let rate = match engine {
            Engine::Threads(threads) => THREAD_RATE * threads.max(1) as f64,
            Engine::Cards(cards) => CARD_RATE * cards.max(1) as f64,
        };
        let fits = (BLOCK_SECONDS * rate / products.max(1.0)).clamp(1.0, LARGEST_BLOCK as f64);
        // A power of two, because the estimate is no better than that.
        Self { block: 1, largest: 1 << (fits as u64).ilog2() }
    }

    /// The size of the next block, at most `most`.
    pub(crate) fn block(&self, most: u64) -> u64 {
        self.block.min(most).max(1)
    }

    /// Doubles the blocks from now on, up to the largest. They begin small so that a run that fails at once has promised little.
    pub(crate) fn grow(&mut self) {
        self.block = (2 * self.block).min(self.largest);
    }

    /// Steps between two checkpoints if the plan does not say.
    pub(crate) fn checkpoint_every(&self) -> u64 {
        BLOCKS_TO_CHECKPOINT * self.largest
    }

    /// Steps before the first checkpoint if the plan does not say, for a plan of this many: a short run that is killed should not lose all,
    /// and one checkpoint more costs little.
    pub(crate) fn first_checkpoint(&self, steps: u64) -> u64 {
        steps.div_ceil(FIRST_CHECKPOINT).min(self.checkpoint_every())
    }
}

/// How many products of two numbers one view takes, forward and backward.
pub(crate) fn products(graph: &Graph) -> f64 {
    let weight = |node: &dapple_graph::Node| match &node.op {
        Op::Conv(Conv { weight, .. }) | Op::Linear(Linear { weight, .. }) => {
            let weight = graph.parameter(*weight);
            node.len() as f64 * weight.len() as f64 / weight.shape[0].max(1) as f64
        }
        // Each of its inputs, rather than of its outputs, takes part in one product for each weight of its channel.
        Op::TransposedConv(TransposedConv { weight, .. }) => {
            let weight = graph.parameter(*weight);
            graph.node(node.inputs[0]).len() as f64 * weight.len() as f64 / weight.shape[0].max(1) as f64
        }
        _ => node.len() as f64,
    };
    // One pass forward and two backward: for the gradient of the inputs, and for that of the weights.
    3.0 * graph.nodes().iter().map(weight).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::{GraphBuilder, Init, Loss};

    #[test]
    fn blocks_grow_to_what_fits_and_no_clock_decides() {
        let mut pace = Pace::new(1.0, Engine::Threads(1));
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 128] {
            assert_eq!(pace.block(1000), expected);
            pace.grow();
        }
        assert_eq!(pace.block(5), 5);
        let mut slow = Pace::new(1e12, Engine::Threads(2));
        slow.grow();
        assert_eq!((slow.block(1000), slow.checkpoint_every()), (1, BLOCKS_TO_CHECKPOINT));
        assert_eq!(
            [1, 50, 51, 1_000_000].map(|steps| slow.first_checkpoint(steps)),
            [1, 1, 2, BLOCKS_TO_CHECKPOINT]
        );
        let mut card = Pace::new(1e12, Engine::Cards(4));
        (0..9).for_each(|_| card.grow());
        assert_eq!(card.block(1000), 8);
    }

    #[test]
    fn products_are_counted() {
        let mut builder = GraphBuilder::new(&[36]);
        let input = builder.input();
        let output = builder.linear("fc", input, 4, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
        let graph = builder.finish(output, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap();
        // Three passes over 36 values and over 36 products for each of four outputs.
        assert_eq!(products(&graph), 3.0 * (36.0 + 4.0 * 36.0));
    }
}
