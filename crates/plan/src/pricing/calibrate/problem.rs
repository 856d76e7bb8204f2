//! What every search has in common: plans, their prices, and the largest number that meets the target.

use std::cell::RefCell;
use std::collections::BTreeMap;

use dapple_accounting::search::Strides;
use dapple_accounting::{BracketPrecision, Effort, Work, search};
use dapple_geometry::Mask;

use super::{Trial, Unknown};
use crate::certificate::Certificate;
use crate::error::PlanError;
use crate::pricing::loss;
use crate::spec::{Accountant, PlanSpec};
use crate::{Plan, Scheme};

/// The most units of work of a search, which take less than five seconds.
const MOST_WORK: f64 = 6e7;
/// The relative precision of the first, rough search.
const ROUGH: f64 = 1e-2;

/// Takes an epsilon that is too large to report as infinite.
pub(super) fn finite(epsilon: Result<f64, PlanError>) -> Result<f64, PlanError> {
    match epsilon {
        Err(error) if error.is_too_large() => Ok(f64::INFINITY),
        other => other,
    }
}

/// A plan with an unknown, and the prices that are known already.
pub(super) struct Problem<'a> {
    pub(super) spec: &'a PlanSpec,
    masks: &'a [Mask],
    pub(super) target: f64,
    pub(super) precision: BracketPrecision,
    watch: &'a dyn Fn(Trial),
    work: Work,
    /// Prices of plans by their hash, because a search comes back to the same plan more than once.
    prices: RefCell<BTreeMap<String, Option<loss::EpsilonAnswer>>>,
    /// Upper ends from first grids, by hash and precision.
    bounds: RefCell<BTreeMap<(String, u64), f64>>,
}

impl<'a> Problem<'a> {
    pub(super) fn new(
        (spec, masks): (&'a PlanSpec, &'a [Mask]),
        target: f64,
        precision: BracketPrecision,
        watch: &'a dyn Fn(Trial),
    ) -> Self {
        Self {
            spec,
            masks,
            target,
            precision,
            watch,
            work: Work::at_most(MOST_WORK),
            prices: RefCell::default(),
            bounds: RefCell::default(),
        }
    }

    /// The plan with some keys set.
    pub(super) fn plan(&self, change: impl FnOnce(&mut PlanSpec)) -> Result<Plan, PlanError> {
        let mut spec = self.spec.clone();
        change(&mut spec);
        Plan::check_with_masks(&spec, self.masks)
    }

    /// Epsilon as a certificate would state it, or infinity if it is too large to report.
    pub(super) fn epsilon(&self, plan: &Plan) -> Result<f64, PlanError> {
        Ok(self.answer(plan)?.map_or(f64::INFINITY, |answer| answer.epsilon.upper))
    }

    /// Epsilon with both ends; `None` if it is too large to report.
    fn answer(&self, plan: &Plan) -> Result<Option<loss::EpsilonAnswer>, PlanError> {
        if let Some(known) = self.prices.borrow().get(plan.hash()) {
            return Ok(*known);
        }
        let answer = plan.answer(plan.accountant(), self.effort(self.precision));
        let answer = answer.map(Some).or_else(PlanError::or_none)?;
        self.tell(answer.map_or(f64::INFINITY, |answer| answer.epsilon.upper));
        self.prices.borrow_mut().insert(plan.hash().to_owned(), answer);
        Ok(answer)
    }

    pub(super) fn price(&self, plan: &Plan) -> Result<Certificate, PlanError> {
        let answer = self.answer(plan)?.ok_or_else(|| PlanError::too_large(plan.delta))?;
        Certificate::new(plan, answer, plan.accountant())
    }

    pub(super) fn effort(&self, precision: BracketPrecision) -> Effort<'_> {
        Effort::counted(precision, &self.work)
    }

    /// Reports a price to whoever watches.
    fn tell(&self, epsilon: f64) {
        let number = self.prices.borrow().len() + self.bounds.borrow().len() + 1;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        (self.watch)(Trial { number, epsilon, share: self.work.spent() / MOST_WORK });
    }

    /// An upper end of epsilon from a first grid, in half the time. A certificate only ever refines it downwards.
    pub(super) fn quick_epsilon(&self, plan: &Plan) -> Result<f64, PlanError> {
        self.epsilon_to(plan, self.precision)
    }

    /// An upper end of epsilon from a first grid of the given precision.
    pub(super) fn epsilon_to(&self, plan: &Plan, precision: BracketPrecision) -> Result<f64, PlanError> {
        if plan.accountant() == Accountant::Rdp {
            return self.epsilon(plan);
        }
        self.bound((plan.hash().to_owned(), precision.relative.to_bits()), || {
            finite(plan.epsilon_upper(self.effort(precision)))
        })
    }

    /// Computes an upper end, unless it is known already.
    pub(super) fn bound(
        &self,
        key: (String, u64),
        compute: impl FnOnce() -> Result<f64, PlanError>,
    ) -> Result<f64, PlanError> {
        if let Some(known) = self.bounds.borrow().get(&key) {
            return Ok(*known);
        }
        let epsilon = compute()?;
        self.tell(epsilon);
        self.bounds.borrow_mut().insert(key, epsilon);
        Ok(epsilon)
    }

    /// The largest number in `low..=high` whose plan meets the target.
    pub(super) fn largest(
        &self,
        low: u64,
        high: u64,
        plan: impl Fn(u64) -> Result<Plan, PlanError>,
    ) -> Result<Option<u64>, PlanError> {
        self.largest_by(low, high, &plan, |n, precision| self.epsilon_to(&plan(n)?, precision))
    }

    /// As [`Problem::largest`]: searches quickly with little precision first, and then from that answer on with whole brackets.
    pub(super) fn largest_by(
        &self,
        low: u64,
        high: u64,
        plan: impl Fn(u64) -> Result<Plan, PlanError>,
        quick: impl Fn(u64, BracketPrecision) -> Result<f64, PlanError>,
    ) -> Result<Option<u64>, PlanError> {
        let range = (low, high);
        let near = search::largest(low, high, self.target, |n| quick(n, self.rough()))?.unwrap_or(low);
        // Epsilon grows about as the root of the steps, so one percent of epsilon is at least two percent of the steps.
        let strides = Strides { first: near / 100, growth: 2 };
        let quick = |n| quick(n, self.precision);
        let near = search::largest_from(near, strides, range, self.target, quick)?.unwrap_or(low);
        let full = |n| self.epsilon(&plan(n)?);
        // Whole brackets are narrower and leave room. Start where a straight line would meet the target.
        let room = (self.target / full(near)? - 1.0) * near as f64;
        let start = near.saturating_add(room.max(0.0) as u64).min(high);
        let strides = Strides { first: room as u64 / 4, growth: 2 };
        search::largest_from(start, strides, range, self.target, full)
    }

    /// The precision of the first, rough search, which is cheap.
    pub(super) fn rough(&self) -> BracketPrecision {
        BracketPrecision { relative: self.precision.relative.max(ROUGH) }
    }

    pub(super) fn is_balanced(&self) -> bool {
        self.spec.sampling.scheme == Some(Scheme::Balanced)
    }

    pub(super) fn unreachable(&self, unknown: Unknown, low: f64, high: f64) -> PlanError {
        PlanError::Unreachable { unknown: unknown.name(), low, high, epsilon: self.target }
    }
}
