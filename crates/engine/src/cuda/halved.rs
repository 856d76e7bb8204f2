//! Matrix products in half precision. They read half the bytes of TF32 and are twice as fast, and their factors have as many bits.
//!
//! Every number of a sample is multiplied by the same power of two before it is rounded to a half, and the product is multiplied by the
//! inverse. The power follows from the sample's own largest number, so that what a sample adds depends on no other sample.
//!
//! In bf16 a half is a bf16 instead, which has the range of single precision. No powers are needed, and what lies in memory as narrow numbers
//! is multiplied as it is.
//!
//! Weight gradients are written in halves as well. What is added to the sum is read from there, so the norm is that of the very numbers that
//! are added, however the tensor cores made them.

use super::Precision;
use super::clip::SumTarget;
use super::device::Device;
use super::error::CudaError;
use super::kernels::{
    HalvedGradientTiles, NarrowBiasGradient, SizesOfSamples, SumHalves, ToHalves, suits_groups,
};
use super::product::MatrixSide;
use super::run::{CardRun, GradientPlace};
use super::slice::{DeviceSlice, Half};

/// Where a weight's gradient lies among the gradients in halves: how many pairs of one sample come before it, and how many weights. The
/// gradients that all samples have for a weight lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HalvedGradient {
    pub(crate) start: usize,
    pub(crate) number: usize,
}

/// Numbers in halves, two to a pair, and for each part that shares a power of two the size of its largest number. In bf16 there are no powers.
#[derive(Clone, Copy)]
pub(crate) struct HalvedNumbers<'m> {
    pub(crate) pairs: DeviceSlice<'m, u32>,
    pub(crate) largest: Option<DeviceSlice<'m, u32>>,
}

impl<'m> HalvedNumbers<'m> {
    /// Takes `items` items of `len` numbers each from memory that has [`HalvedNumbers::room`] for each of them.
    pub(crate) fn of(device: &Device, memory: DeviceSlice<'m, f32>, items: usize, len: usize) -> Self {
        let pairs = items * len / 2;
        let powers = device.precision != Precision::Bf16;
        let largest = powers.then(|| memory.cast().after(pairs).first(items));
        Self { pairs: memory.cast().first(pairs), largest }
    }

    /// Takes narrow numbers as they are.
    pub(crate) fn narrow(memory: DeviceSlice<'m, f32>) -> Self {
        Self { pairs: memory.cast(), largest: None }
    }

    /// How many numbers of memory an item of `len` numbers takes.
    pub(crate) fn room(len: usize) -> usize {
        len / 2 + 1
    }

    /// The halves as a side of a matrix product.
    pub(crate) fn side(&self, leading: usize, stride: usize) -> MatrixSide<'m, Half> {
        MatrixSide::new(self.pairs.cast(), leading, stride)
    }

    /// Adds up the rows of every part, if the gradient of a bias is wanted.
    pub(crate) fn bias_gradient(
        &self,
        device: &Device,
        (samples, rows, columns): (usize, usize, usize),
        (bias, stride): (Option<GradientPlace<'_>>, usize),
    ) -> Result<(), CudaError> {
        let Some(GradientPlace { values: d, .. }) = bias else { return Ok(()) };
        NarrowBiasGradient { samples, g: self.pairs.cast(), d, stride, columns, rows }.launch(device)
    }

    /// Rounds numbers to halves. They consist of `count` parts of `rows` rows and `columns` columns, and each part has a power of its own.
    /// If the gradient of a bias is wanted, the rows of every part are added up on the way.
    pub(crate) fn round(
        &self,
        device: &Device,
        x: DeviceSlice<'_, f32>,
        (count, rows, columns): (usize, usize, usize),
        bias: (Option<GradientPlace<'_>>, usize),
    ) -> Result<(), CudaError> {
        let (largest, len) = (self.largest.map(|largest| largest.first(count)), rows * columns);
        if let Some(largest) = largest {
            device.clear(largest)?;
            let (d, stride) = (bias.0.map(|place| place.values), bias.1);
            SizesOfSamples { samples: count, x: x.cast(), columns, rows, d, stride, largest }
                .launch(device)?;
        }
        ToHalves { x: x.cast(), halves: self.pairs.cast(), largest, len, n: count * len }.launch(device)?;
        match largest {
            Some(_) => Ok(()),
            None => self.bias_gradient(device, (count, rows, columns), bias),
        }
    }
}

/// The factor that keeps a product over this many rows from overflowing a half, if both of its sides have powers and are below 2^15.
fn taken_off(rows: usize, powers: bool) -> f32 {
    if !powers {
        return 1.0;
    }
    0.5f32.powi(15 + rows.next_power_of_two().trailing_zeros() as i32)
}

impl CardRun<'_> {
    /// Writes every sample's weight gradient in halves, which is a product over this many rows of `x` and `g`, and bounds its norm. Narrow
    /// `g` are also added up as the gradient of the bias, if that is wanted.
    ///
    /// # Guarantee
    /// The bounds are never less than the norm of the numbers that [`CardRun::halved_sum`] multiplies by the sample's factor and turns into
    /// whole numbers. They are not finite if one of those numbers is not.
    pub(crate) fn halved_gradient(
        &mut self,
        place: HalvedGradient,
        rows: usize,
        (x, features): (HalvedNumbers<'_>, usize),
        (g, out): (HalvedNumbers<'_>, usize),
        (bias, partials): (Option<GradientPlace<'_>>, DeviceSlice<'_, f64>),
    ) -> Result<(), CudaError> {
        let (device, program, samples) = (self.device, self.program, self.samples);
        let tiles = HalvedGradientTiles {
            samples,
            x: x.pairs.cast(),
            x_largest: x.largest,
            g: g.pairs.cast(),
            g_largest: g.largest,
            d: self.work.halved().after(place.start * samples).cast(),
            features,
            out,
            rows,
            taken: taken_off(rows, x.largest.is_some()),
            bias: bias.map(|place| place.values),
            bias_stride: program.written,
            scales: self.work.scales().after(place.number),
            scale_stride: program.halved_count(),
            partials,
            partial_stride: program.partials,
        };
        match device.groups.filter(|_| suits_groups(features, rows)) {
            Some(multiprocessors) => tiles.launch_groups(device, multiprocessors)?,
            None => tiles.launch(device)?,
        }
        self.mark("linear weight gradient")
    }

    /// Adds all samples' gradients that were written in halves to the sum.
    pub(crate) fn halved_sum(&self, target: SumTarget<'_>) -> Result<(), CudaError> {
        let (work, program) = (self.work, self.program);
        let sum = SumHalves {
            count: program.halved_blocks.len(),
            d: work.halved().cast(),
            blocks: work.halved_blocks(),
            held: self.samples,
            scales: work.scales(),
            scale_stride: program.halved_count(),
            factors: work.factors(),
            entries: program.sources.len(),
            sum: target.sum,
            samples: target.samples,
            whole: target.whole,
        };
        // SAFETY: blocks are the program's own, and lie in the memory that it plans for a sample and in a sum of its layout.
        unsafe { sum.launch(self.device) }
    }
}
