//! A sliding window, and the shape of its output.

use super::shape::{elements, spatial};

/// A sliding window over the spatial axes (two for images, three for clips).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Window size along each spatial axis.
    pub kernel: Vec<usize>,
    /// Step between windows along each spatial axis.
    pub stride: Vec<usize>,
    /// Zeros added on both sides of each spatial axis.
    pub padding: Vec<usize>,
    /// Distance between the taps of a window along each spatial axis.
    pub dilation: Vec<usize>,
}

impl Window {
    /// A window of `size` along `rank` axes, with stride one and no padding.
    pub fn new(rank: usize, size: usize) -> Self {
        Self {
            kernel: vec![size; rank],
            stride: vec![1; rank],
            padding: vec![0; rank],
            dilation: vec![1; rank],
        }
    }

    /// A window of `size` by `size` over an image.
    pub fn square(size: usize) -> Self {
        Self::new(2, size)
    }

    /// Sets the stride of every axis.
    #[must_use]
    pub fn stride(mut self, stride: usize) -> Self {
        self.stride.fill(stride);
        self
    }

    /// Sets the padding of every axis.
    #[must_use]
    pub fn padding(mut self, padding: usize) -> Self {
        self.padding.fill(padding);
        self
    }

    /// Sets the dilation of every axis.
    #[must_use]
    pub fn dilation(mut self, dilation: usize) -> Self {
        self.dilation.fill(dilation);
        self
    }

    /// Number of positions in one window.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// The spatial shape of the output for a spatial input shape, or `None` if the window does not fit.
    pub fn output(&self, spatial: &[usize]) -> Option<Vec<usize>> {
        let rank = spatial.len();
        let same = [&self.kernel, &self.stride, &self.padding, &self.dilation];
        if same.iter().any(|axis| axis.len() != rank) {
            return None;
        }
        (0..rank)
            .map(|axis| {
                let reach =
                    self.dilation[axis].checked_mul(self.kernel[axis].checked_sub(1)?)?.checked_add(1)?;
                let padded = spatial[axis].checked_add(self.padding[axis].checked_mul(2)?)?;
                Some(padded.checked_sub(reach)?.checked_div(self.stride[axis])? + 1)
            })
            .collect()
    }

    /// The shape of the output for an image or clip, if the output has this many channels.
    pub(crate) fn shape(&self, input: &[usize], channels: usize) -> Result<Vec<usize>, String> {
        let (_, spatial) = spatial(input)?;
        let refuse = || format!("a window of {:?} does not fit {input:?}", self.kernel);
        let output = self.output(spatial).ok_or_else(refuse)?;
        let shape: Vec<usize> = std::iter::once(channels).chain(output).collect();
        if elements(&shape).is_none() || self.taps() == 0 { Err(refuse()) } else { Ok(shape) }
    }

    /// Like [`Self::shape`], for pooling, where no window may lie in the padding alone.
    pub(crate) fn pooled(&self, input: &[usize]) -> Result<Vec<usize>, String> {
        if self.padding.iter().zip(&self.kernel).any(|(padding, kernel)| padding * 2 > *kernel) {
            return Err("the padding is more than half of the kernel".into());
        }
        self.shape(input, input.first().copied().unwrap_or(0))
    }
}
