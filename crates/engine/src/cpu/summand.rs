//! The types of numbers that sums are made of.

/// A type of numbers that sums are made of.
pub(crate) trait Summand: Copy + Default + Send + Sync {
    /// Whether gradients of standardised filters were added with their mean taken off and divided by the deviation.
    const CLIPPED: bool;
    fn wide(self) -> f64;
    /// The nearest number of this type.
    fn narrow(value: f64) -> Self;
    /// A sum of such numbers that is to be copied from one memory to another.
    fn exported<'a>(sum: &'a [Self], to: &'a mut [Self]) -> Exported<'a>;
}

/// A sum that is to be copied from the order in which it was stored to its parameter's own order, in any type of numbers.
pub(crate) enum Exported<'a> {
    /// Whole numbers of 32 bits.
    Counts(&'a [u32], &'a mut [u32]),
    /// Whole numbers of 64 bits.
    Wide(&'a [i64], &'a mut [i64]),
    Plain(&'a [f32], &'a mut [f32]),
}

impl Summand for f32 {
    const CLIPPED: bool = false;

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as f32
    }

    fn exported<'a>(sum: &'a [Self], to: &'a mut [Self]) -> Exported<'a> {
        Exported::Plain(sum, to)
    }
}

/// Whole numbers of 32 bits are only put into order, because sums are carried over before their filters are projected.
impl Summand for u32 {
    const CLIPPED: bool = true;

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self as i32)
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value.round_ties_even() as i32 as u32
    }

    fn exported<'a>(sum: &'a [Self], to: &'a mut [Self]) -> Exported<'a> {
        Exported::Counts(sum, to)
    }
}

impl Summand for i64 {
    const CLIPPED: bool = true;

    #[inline(always)]
    fn wide(self) -> f64 {
        self as f64
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value.round_ties_even() as i64
    }

    fn exported<'a>(sum: &'a [Self], to: &'a mut [Self]) -> Exported<'a> {
        Exported::Wide(sum, to)
    }
}
