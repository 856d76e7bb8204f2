//! The running sum of clipped gradients.

use pulp::bytemuck;
use rayon::prelude::*;

use crate::clipping::{ClippingRule, HELD};
use crate::error::EngineError;
use crate::layout::Layout;

/// A running sum of clipped gradients, in the order in which the kernels make them. [`crate::Loaded::total`] brings it into the order of
/// the layout.
#[derive(Debug, Clone)]
pub struct GradientSum {
    /// The trainable parameters one after the other, each in the order in which the kernels make it. These are the bits of whole numbers, or
    /// without clipping plain numbers.
    memory: Vec<f32>,
    /// What was carried over of the whole numbers, to which the memory is added; empty while the memory holds all samples.
    carried: Vec<i64>,
    /// What a whole number stands for, or `Some(None)` for plain numbers. It is `None` while nothing was added; then the memory stands for
    /// zeros, whatever it holds.
    unit: Option<Option<f64>>,
    samples: usize,
    /// How many samples are in the memory.
    held: usize,
}

/// How many numbers one thread works on at a time.
pub(crate) const BLOCK: usize = 16 * 1024;

impl GradientSum {
    /// An empty sum in this buffer, which is used again if it is large enough.
    pub(crate) fn new(layout: &Layout, mut buffer: Vec<f32>) -> Self {
        buffer.resize(layout.len(), 0.0);
        Self { memory: buffer, carried: Vec::new(), unit: None, samples: 0, held: 0 }
    }

    /// Prepares the sum for this many more samples, clipped by this rule.
    pub(crate) fn reserve(&mut self, rule: &ClippingRule, samples: usize) -> Result<(), EngineError> {
        let total = self.samples.saturating_add(samples);
        if total > rule.capacity() || self.unit.is_some_and(|unit| unit != rule.unit()) {
            return Err(EngineError::Sum { capacity: rule.capacity() });
        }
        self.samples = total;
        if self.unit.is_none() {
            self.memory.par_chunks_mut(BLOCK).for_each(|block| block.fill(0.0));
            self.unit = Some(rule.unit());
        }
        Ok(())
    }

    pub(crate) fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        if self.memory.len() == layout.len() { Ok(()) } else { Err(EngineError::Parameters) }
    }

    /// How many samples may be added to the memory before it is carried over.
    pub(crate) fn room(&self) -> usize {
        if self.unit.flatten().is_some() { HELD } else { usize::MAX }
    }

    /// Whether whole numbers must be carried over before this many more samples are added to the memory.
    pub(crate) fn is_full_for(&self, samples: usize) -> bool {
        self.held.saturating_add(samples) > self.room()
    }

    /// Notes that this many more samples are added to the memory.
    ///
    /// # Guarantee
    /// With no more than [`HELD`] samples in it, no number in the memory overflows; see [`ClippingRule`].
    pub(crate) fn hold(&mut self, samples: usize) {
        debug_assert!(!self.is_full_for(samples), "carried over before");
        self.held += samples;
    }

    /// Carries the whole numbers in the memory over and leaves zeros there. `spare` is memory for what is carried over, which is then shifted
    /// up by this many binary digits.
    ///
    /// # Guarantee
    /// Nothing is rounded: what is carried over stands for the same sum as before, times a power of two. It does not overflow for any sum
    /// within a rule's capacity.
    pub(crate) fn carry(&mut self, spare: &mut Vec<i64>, digits: u32) {
        if self.carried.is_empty() {
            self.carried = std::mem::take(spare);
            self.carried.resize(self.memory.len(), 0);
            self.carried.par_chunks_mut(BLOCK).for_each(|block| block.fill(0));
        }
        let blocks = self.carried.par_chunks_mut(BLOCK).zip(self.memory.par_chunks_mut(BLOCK));
        blocks.for_each(|(carried, memory)| {
            for (carried, low) in carried.iter_mut().zip(memory) {
                *carried = count(*low, *carried) << digits;
                *low = 0.0;
            }
        });
        self.held = 0;
    }

    /// The numbers of this sum as those of other processes must be added to them, whose sums hold `others` samples together. `spare` is memory
    /// for what may be carried over.
    ///
    /// # Guarantee
    /// As many processes as there may be, each with a sum by the same rule, prepare numbers of the same kind if each is given the number of
    /// all samples but its own. Whole numbers then do not overflow, in whatever order they are added: narrow ones are used for no more
    /// samples than [`HELD`], and no sum is prepared for more than the rule's capacity.
    pub(crate) fn joint(
        &mut self,
        rule: &ClippingRule,
        others: usize,
        spare: &mut Vec<i64>,
    ) -> Result<JointNumbers<'_>, EngineError> {
        self.reserve(rule, others)?;
        if self.unit.flatten().is_none() {
            return Ok(JointNumbers::Plain(&mut self.memory));
        }
        if self.samples <= HELD {
            debug_assert!(self.carried.is_empty(), "nothing is carried over before the memory is full");
            self.held = self.samples;
            return Ok(JointNumbers::Narrow(bytemuck::cast_slice_mut(&mut self.memory)));
        }
        self.carry(spare, 0);
        Ok(JointNumbers::Wide(&mut self.carried))
    }

    /// The memory as whole numbers, or as plain ones.
    pub(crate) fn numbers(&mut self) -> Numbers<'_> {
        match self.unit.flatten() {
            Some(_) => Numbers::Whole(bytemuck::cast_slice_mut(&mut self.memory)),
            None => Numbers::Plain(&mut self.memory),
        }
    }

    /// What was carried over.
    pub(crate) fn carried(&mut self) -> &mut [i64] {
        &mut self.carried
    }

    /// Turns the sum into a total. Its whole numbers, if it has any, count units divided by two to the power of `digits`.
    pub(crate) fn into_total(self, digits: u32) -> Total {
        let Self { mut memory, carried, unit, .. } = self;
        let Some(unit) = unit else {
            // Zero has the same bits as a whole number and as a plain one.
            memory.fill(0.0);
            return Total::new(memory, carried, Some(1.0));
        };
        Total::new(memory, carried, unit.map(|unit| unit / f64::from(1 << digits)))
    }
}

/// A whole number, put together from its bits in the memory and what was carried over.
#[inline(always)]
fn count(low: f32, carried: i64) -> i64 {
    carried + i64::from(low.to_bits() as i32)
}

/// The numbers of a sum that several processes add up.
#[derive(Debug)]
pub enum JointNumbers<'a> {
    /// Whole numbers whose sum over all processes has 32 bits at the most.
    Narrow(&'a mut [i32]),
    /// Whole numbers whose sum over all processes has more.
    Wide(&'a mut [i64]),
    /// Plain numbers, of sums without clipping.
    Plain(&'a mut [f32]),
}

/// The numbers of a sum.
pub(crate) enum Numbers<'a> {
    /// Whole numbers in two's complement.
    Whole(&'a mut [u32]),
    Plain(&'a mut [f32]),
}

/// A finished sum in the order of the layout.
#[derive(Debug, Clone)]
pub struct Total {
    /// The bits of whole numbers, or plain numbers.
    memory: Vec<f32>,
    /// What was carried over of the whole numbers, to which their bits are added; empty if nothing was.
    carried: Vec<i64>,
    unit: Option<f64>,
}

impl Total {
    /// A total of numbers in the order of a layout: the bits of whole numbers, what was carried over of them, and what a one stands for; or
    /// plain numbers without a unit.
    pub(crate) fn new(memory: Vec<f32>, carried: Vec<i64>, unit: Option<f64>) -> Self {
        Self { memory, carried, unit }
    }

    /// Adds another total by the same rule. Whole numbers are added without rounding; for plain numbers the order matters.
    #[cfg(feature = "cuda")]
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), EngineError> {
        if (self.memory.len(), self.unit) != (other.memory.len(), other.unit) {
            return Err(EngineError::Parameters);
        }
        if self.unit.is_none() {
            self.memory.iter_mut().zip(&other.memory).for_each(|(to, from)| *to += *from);
            return Ok(());
        }
        self.carried = self.whole().zip(other.whole()).map(|(one, other)| one + other).collect();
        self.memory.fill(0.0);
        Ok(())
    }

    /// Adds another total of whole numbers, by a rule with another bound. From then on a one stands for the smaller of their units.
    ///
    /// # Guarantee
    /// Nothing is rounded, because units are powers of two.
    ///
    /// # Errors
    /// Totals of another length, plain numbers, or a number that would reach 2^53, up to which double precision holds them exactly. The
    /// total must not be used then.
    pub fn join(&mut self, other: &Self) -> Result<(), EngineError> {
        let (Some(own), Some(others)) = (self.unit, other.unit) else { return Err(EngineError::Parameters) };
        if self.memory.len() != other.memory.len() {
            return Err(EngineError::Parameters);
        }
        let unit = own.min(others);
        let finer = |count: i64, from: f64| {
            let count = count as f64 * (from / unit);
            (count.abs() < (1u64 << 52) as f64).then_some(count as i64)
        };
        let both = self.whole().zip(other.whole());
        let sums: Option<Vec<i64>> =
            both.map(|(one, other)| Some(finer(one, own)? + finer(other, others)?)).collect();
        self.carried = sums.ok_or(EngineError::Sum { capacity: HELD })?;
        self.memory.fill(0.0);
        self.unit = Some(unit);
        Ok(())
    }

    /// The bits of the whole numbers that were not carried over, or the plain numbers, and what was carried over.
    #[cfg(feature = "cuda")]
    pub(crate) fn numbers(&self) -> (&[f32], &[i64]) {
        (&self.memory, &self.carried)
    }

    /// The whole numbers, and what a one stands for; `None` if the total has plain numbers.
    pub fn counts(&self) -> Option<(impl Iterator<Item = i64>, f64)> {
        self.unit.map(|unit| (self.whole(), unit))
    }

    /// The numbers as those of other processes must be added to them; whole numbers have 64 bits each.
    ///
    /// # Guarantee
    /// Whole numbers stay those that they were. What is added to them in place is added to the total, without rounding.
    pub fn joint(&mut self) -> JointNumbers<'_> {
        if self.unit.is_none() {
            return JointNumbers::Plain(&mut self.memory);
        }
        if self.carried.len() != self.memory.len() || self.memory.iter().any(|low| low.to_bits() != 0) {
            self.carried = self.whole().collect();
            self.memory.fill(0.0);
        }
        JointNumbers::Wide(&mut self.carried)
    }

    fn whole(&self) -> impl Iterator<Item = i64> {
        let carried = self.carried.iter().copied().chain(std::iter::repeat(0));
        self.memory.iter().zip(carried).map(|(&low, carried)| count(low, carried))
    }

    /// Turns the total into plain numbers, which it returns. `plain` makes them in place from the bits of the whole numbers, from what was
    /// carried over, which is empty or to be added, and from what a one stands for. A total that has plain numbers is left alone.
    ///
    /// # Errors
    /// Those of `plain`, after which the total must not be used.
    pub fn make_plain<E>(
        &mut self,
        plain: impl FnOnce(&mut [f32], &[i64], f64) -> Result<(), E>,
    ) -> Result<&mut [f32], E> {
        if let Some(unit) = self.unit.take() {
            plain(&mut self.memory, &self.carried, unit)?;
        }
        Ok(&mut self.memory)
    }

    /// The memory of the numbers, and the memory of what was carried over.
    pub(crate) fn into_memory(self) -> (Vec<f32>, Vec<i64>) {
        (self.memory, self.carried)
    }

    /// Turns the total into numbers of single precision, in the same memory.
    pub fn to_single(&mut self) -> &mut [f32] {
        let single = |low: f32, carried: i64, unit: f64| (count(low, carried) as f64 * unit) as f32;
        let made = self.make_plain(|memory, carried, unit| -> Result<(), std::convert::Infallible> {
            if carried.is_empty() {
                let blocks = memory.par_chunks_mut(BLOCK);
                blocks.for_each(|block| block.iter_mut().for_each(|value| *value = single(*value, 0, unit)));
            } else {
                let blocks = memory.par_chunks_mut(BLOCK).zip(carried.par_chunks(BLOCK));
                blocks.for_each(|(block, carried)| {
                    let both = block.iter_mut().zip(carried);
                    both.for_each(|(value, &carried)| *value = single(*value, carried, unit));
                });
            }
            Ok(())
        });
        match made {
            Ok(numbers) => numbers,
            Err(never) => match never {},
        }
    }

    /// The total in single precision, in its own memory.
    pub fn into_gradient(mut self) -> Vec<f32> {
        self.to_single();
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clipping;
    use crate::clipping::FRACTION;
    use dapple_graph::{GraphBuilder, Init, Loss};
    use proptest::prelude::*;

    fn layout() -> Layout {
        let mut builder = GraphBuilder::new(&[3]);
        let head =
            builder.linear("head", builder.input(), 2, Init::Constant(0.0), Init::Constant(0.0)).unwrap();
        Layout::new(&builder.finish(head, Loss::SquaredError).unwrap())
    }

    fn rule(max_norm: f64) -> ClippingRule {
        ClippingRule::new(&Clipping::Flat { max_norm }, &layout()).unwrap()
    }

    /// Adds this many samples with the same counts at once.
    fn add(sum: &mut GradientSum, samples: usize, counts: &[i32]) {
        if sum.is_full_for(samples) {
            sum.carry(&mut Vec::new(), 0);
        }
        sum.hold(samples);
        let Numbers::Whole(values) = sum.numbers() else { panic!("whole numbers") };
        for (value, count) in values.iter_mut().zip(counts) {
            let added = i64::from(*count) * samples as i64;
            *value = i32::try_from(i64::from(*value as i32) + added)
                .expect("sums are carried over before they overflow") as u32;
        }
    }

    proptest! {
        /// Compares with numbers wide enough for everything: sums of any samples in any parts, up to the largest counts, forwards and
        /// backwards.
        #[test]
        fn sums_are_exact(
            parts in prop::collection::vec((1usize..=HELD, prop::collection::vec(-2_097_151i32..=2_097_151, 8)), 1..40),
            digits in prop::sample::select(vec![0, FRACTION]),
        ) {
            let rule = rule(1.0f64.next_down());
            let mut want = [0i128; 8];
            let mut forward = GradientSum::new(&layout(), Vec::new());
            let mut backward = forward.clone();
            for (samples, counts) in &parts {
                want.iter_mut().zip(counts).for_each(|(want, &count)| *want += i128::from(count) * *samples as i128);
                forward.reserve(&rule, *samples).unwrap();
                add(&mut forward, *samples, counts);
            }
            for (samples, counts) in parts.iter().rev() {
                backward.reserve(&rule, *samples).unwrap();
                (0..*samples).for_each(|_| add(&mut backward, 1, counts));
            }
            // One sum ends carried over, the other as it is.
            forward.carry(&mut vec![7; 3], digits);
            let (forward, backward) = (forward.into_total(digits), backward.into_total(0));
            let unit = rule.unit().unwrap();
            let (counts, fine) = forward.counts().unwrap();
            prop_assert_eq!(fine, unit / f64::from(1 << digits));
            prop_assert_eq!(counts.map(i128::from).collect::<Vec<_>>(), want.map(|want| want << digits).to_vec());
            let (counts, coarse) = backward.counts().unwrap();
            prop_assert_eq!(coarse, unit);
            prop_assert_eq!(counts.map(i128::from).collect::<Vec<_>>(), want.to_vec());
            // The counts are below 2^53, so what they stand for is rounded only once.
            let single = want.map(|want| (want as f64 * unit) as f32).to_vec();
            prop_assert_eq!(forward.into_gradient(), single.clone());
            prop_assert_eq!(backward.into_gradient(), single);
        }
    }

    /// Every sample has its whole bound in each coordinate. The memory takes as many as it holds, and is carried over as often as the
    /// capacity allows.
    #[test]
    fn the_largest_sum_does_not_overflow() {
        for max_norm in [1.0, 1.0f64.next_down()] {
            for sign in [1, -1] {
                let rule = rule(max_norm);
                let largest = sign * (max_norm / rule.unit().unwrap()).floor() as i32;
                let mut sum = GradientSum::new(&layout(), Vec::new());
                sum.reserve(&rule, rule.capacity()).unwrap();
                for _ in 0..rule.capacity() / HELD {
                    add(&mut sum, HELD, &[largest; 8]);
                }
                sum.carry(&mut Vec::new(), FRACTION);
                let want = (i128::from(largest) * rule.capacity() as i128) << FRACTION;
                let total = sum.into_total(FRACTION);
                assert!(total.counts().unwrap().0.all(|count| i128::from(count) == want));
                // The sum is exact in double precision, in which noise is added.
                assert_eq!(want as f64 as i128, want);
            }
        }
    }

    #[test]
    fn more_samples_than_any_sum_holds_are_refused() {
        let rule = rule(1.0);
        let capacity = rule.capacity();
        let mut sum = GradientSum::new(&layout(), Vec::new());
        sum.reserve(&rule, capacity - 1).unwrap();
        assert_eq!(sum.reserve(&rule, 2), Err(EngineError::Sum { capacity }));
        sum.reserve(&rule, 1).unwrap();
    }

    #[test]
    fn totals_of_two_rules_join_exactly() {
        let total = |max_norm: f64, count: i32| {
            let mut sum = GradientSum::new(&layout(), Vec::new());
            sum.reserve(&rule(max_norm), 1).unwrap();
            add(&mut sum, 1, &[count; 8]);
            sum.into_total(0)
        };
        for (one, other) in [(1.0, 0.25), (0.25, 1.0), (1.0, 1.0), (1.0, 1000.0)] {
            let units = [one, other].map(|bound| rule(bound).unit().unwrap());
            let mut joined = total(one, 1_000_003);
            joined.join(&total(other, -77)).unwrap();
            let (mut counts, unit) = joined.counts().unwrap();
            assert_eq!(unit, units[0].min(units[1]));
            let want = 1_000_003.0 * units[0] - 77.0 * units[1];
            assert!(counts.all(|count| count as f64 * unit == want));
        }
        // A sum of nothing has any unit.
        let mut nothing = GradientSum::new(&layout(), Vec::new()).into_total(0);
        nothing.join(&total(1.0, 5)).unwrap();
        assert!(nothing.counts().unwrap().0.all(|count| count == 5));
        assert!(total(1e12, 1 << 20).join(&total(1e-6, 1)).is_err(), "more digits than there are");
        let plain = GradientSum { unit: Some(None), ..GradientSum::new(&layout(), Vec::new()) };
        assert!(plain.into_total(0).join(&total(1.0, 5)).is_err());
    }

    proptest! {
        /// Each process has some of the samples, or none; together they have the sum of all, whatever it takes to hold it.
        #[test]
        fn sums_of_processes_join_exactly(
            processes in prop::collection::vec(
                prop::collection::vec((1usize..=700, prop::collection::vec(-2_097_151i32..=2_097_151, 8)), 0..4),
                1..5,
            ),
        ) {
            let rule = rule(1.0f64.next_down());
            let all: usize = processes.iter().flatten().map(|(samples, _)| samples).sum();
            let mut want = [0i128; 8];
            let mut joined = [0i128; 8];
            let mut sums = Vec::new();
            for parts in &processes {
                let mut sum = GradientSum::new(&layout(), Vec::new());
                for (samples, counts) in parts {
                    sum.reserve(&rule, *samples).unwrap();
                    add(&mut sum, *samples, counts);
                    want.iter_mut().zip(counts).for_each(|(want, &count)| *want += i128::from(count) * *samples as i128);
                }
                let own = sum.samples;
                let numbers: Vec<i64> = match sum.joint(&rule, all - own, &mut vec![3; 2]).unwrap() {
                    JointNumbers::Narrow(numbers) => numbers.iter().map(|&number| i64::from(number)).collect(),
                    JointNumbers::Wide(numbers) => numbers.to_vec(),
                    JointNumbers::Plain(_) => panic!("whole numbers"),
                };
                joined.iter_mut().zip(numbers).for_each(|(joined, number)| *joined += i128::from(number));
                sums.push(sum);
            }
            prop_assert_eq!(joined, want);
            for mut sum in sums {
                // What the processes have added up takes the place of each one's own numbers.
                match sum.joint(&rule, 0, &mut Vec::new()).unwrap() {
                    JointNumbers::Narrow(numbers) => {
                        prop_assert!(all <= HELD);
                        numbers.iter_mut().zip(want).for_each(|(number, want)| *number = i32::try_from(want).unwrap());
                    }
                    JointNumbers::Wide(numbers) => {
                        numbers.iter_mut().zip(want).for_each(|(number, want)| *number = i64::try_from(want).unwrap());
                    }
                    JointNumbers::Plain(_) => panic!("whole numbers"),
                }
                let total = sum.into_total(0);
                prop_assert_eq!(total.counts().unwrap().0.map(i128::from).collect::<Vec<_>>(), want.to_vec());
            }
        }
    }

    #[test]
    fn processes_hold_no_more_together_than_one() {
        let rule = rule(1.0);
        let mut sum = GradientSum::new(&layout(), Vec::new());
        sum.reserve(&rule, 1).unwrap();
        assert!(sum.joint(&rule, rule.capacity(), &mut Vec::new()).is_err());
        assert!(matches!(sum.joint(&rule, rule.capacity() - 1, &mut Vec::new()), Ok(JointNumbers::Wide(_))));
    }

    #[test]
    fn a_sum_of_nothing_is_zero() {
        let sum = GradientSum::new(&layout(), vec![f32::NAN; 8]);
        assert_eq!(sum.into_total(0).into_gradient(), [0.0; 8]);
    }
}
