//! Transposed convolutions.

use super::shape::{elements, grouped_channels, spatial, vector};
use super::{GraphOperation, Window};
use crate::graph::{Parameter, ParameterId};

/// Transposed convolution over two or three spatial axes, `[c, ..] -> [out, ..]`. It computes what a convolution from `out` to `c` channels
/// computes for its data gradient. Decoders use it to enlarge features.
#[derive(Debug, Clone, PartialEq)]
pub struct TransposedConv {
    /// The window of that convolution, which here slides over the output. Each input position is spread over one window, and the windows
    /// are `stride` apart. Padding takes positions away at both ends.
    pub window: Window,
    /// How many positions are added at the end of each spatial axis, which must be fewer than the stride. A convolution with a stride
    /// gives inputs of several sizes the same output size, and this chooses among them.
    pub output_padding: Vec<usize>,
    /// Number of channel groups.
    pub groups: usize,
    /// `[c, out / groups, kernel..]`.
    pub weight: ParameterId,
    /// `[out]`.
    pub bias: Option<ParameterId>,
}

impl TransposedConv {
    /// The name of the operation, which depends on the number of axes it slides over.
    pub(crate) fn name_of(window: &Window) -> &'static str {
        if window.kernel.len() == 3 { "ConvTranspose3d" } else { "ConvTranspose2d" }
    }

    /// The shape of the weight that makes `out` channels from this input.
    pub(crate) fn weight_shape(
        window: &Window,
        groups: usize,
        out: usize,
        input: &[usize],
    ) -> Result<Vec<usize>, String> {
        let channels = grouped_channels(input, out, groups)?;
        Ok([channels, out / groups].into_iter().chain(window.kernel.iter().copied()).collect())
    }

    /// The shape of the output, with this many channels.
    fn output(&self, input: &[usize], out: usize) -> Result<Vec<usize>, String> {
        let (_, spatial) = spatial(input)?;
        let Self { window, output_padding, .. } = self;
        let rank = spatial.len();
        let axes = [&window.kernel, &window.stride, &window.padding, &window.dilation, output_padding];
        if axes.iter().any(|axis| axis.len() != rank) {
            return Err(format!("a window of {:?} does not fit {input:?}", window.kernel));
        }
        if output_padding.iter().zip(&window.stride).any(|(more, stride)| more >= stride) {
            return Err(format!(
                "an output padding of {output_padding:?} is not below the stride {:?}",
                window.stride
            ));
        }
        let side = |axis: usize| {
            // The side is such that the convolution makes `spatial[axis]` positions from it.
            let reach =
                window.dilation[axis].checked_mul(window.kernel[axis].checked_sub(1)?)?.checked_add(1)?;
            let apart = spatial[axis].checked_sub(1)?.checked_mul(window.stride[axis])?;
            let padded = apart.checked_add(reach)?.checked_add(output_padding[axis])?;
            padded.checked_sub(window.padding[axis].checked_mul(2)?).filter(|&side| side > 0)
        };
        let sides: Option<Vec<usize>> = (0..rank).map(side).collect();
        let shape = sides.map(|sides| std::iter::once(out).chain(sides).collect::<Vec<usize>>());
        shape.filter(|shape| elements(shape).is_some()).ok_or_else(|| {
            format!("a window of {:?} and its padding leave nothing of {input:?}", window.kernel)
        })
    }
}

impl GraphOperation for TransposedConv {
    fn name(&self) -> &'static str {
        Self::name_of(&self.window)
    }

    fn parameters(&self) -> Vec<ParameterId> {
        std::iter::once(self.weight).chain(self.bias).collect()
    }

    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let weight = &parameters[self.weight.index()].shape;
        let out = weight.get(1).copied().unwrap_or(0).checked_mul(self.groups).unwrap_or(0);
        let wanted = Self::weight_shape(&self.window, self.groups, out, inputs[0])?;
        if *weight != wanted {
            return Err(format!("a weight of shape {weight:?} is not of {wanted:?}"));
        }
        self.bias.map_or(Ok(()), |bias| vector("bias", bias, out, parameters))?;
        self.output(inputs[0], out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvSpec, GraphBuilder};

    /// A convolution of the same window takes the output back to the input's size.
    #[test]
    fn sizes_are_those_that_a_convolution_takes_back() {
        for (kernel, stride, padding, dilation, more) in [
            (2, 2, 0, 1, 0),
            (3, 2, 1, 1, 1),
            (3, 2, 1, 1, 0),
            (4, 3, 2, 2, 2),
            (1, 2, 0, 1, 1),
            (5, 1, 2, 1, 0),
        ] {
            let window = Window::square(kernel).stride(stride).padding(padding).dilation(dilation);
            let mut b = GraphBuilder::new(&[4, 5, 7]);
            let spec = ConvSpec::new(6, window.clone()).groups(2).bias();
            let x = b.transposed_conv("up", b.input(), spec, &[more, 0]).unwrap();
            assert_eq!(window.output(&b.shape(x)[1..]), Some(vec![5, 7]), "{window:?}");
            assert_eq!(b.shape(x)[0], 6);
        }
    }

    #[test]
    fn what_cannot_be_spread_is_refused() {
        let refused = |window: Window, groups: usize, more: &[usize]| {
            let mut b = GraphBuilder::new(&[4, 5, 7]);
            let spec = ConvSpec::new(6, window).groups(groups);
            b.transposed_conv("up", b.input(), spec, more).unwrap_err().to_string()
        };
        assert!(refused(Window::square(2).stride(2), 1, &[2, 0]).contains("below the stride"));
        assert!(refused(Window::square(2).stride(2), 1, &[0]).contains("does not fit"));
        assert!(refused(Window::new(3, 2), 1, &[0, 0]).contains("does not fit"));
        assert!(refused(Window::square(2), 3, &[0, 0]).contains("3 groups"));
        assert!(refused(Window::square(2).padding(4), 1, &[0, 0]).contains("leave nothing"));
        assert!(refused(Window::square(0), 1, &[0, 0]).contains("holds no values"));
        let mut b = GraphBuilder::new(&[4, 5, 7]);
        let spec = ConvSpec::new(6, Window::square(2)).standardise(1e-5);
        let error = b.transposed_conv("up", b.input(), spec, &[0, 0]).unwrap_err();
        assert!(error.to_string().contains("standardised"), "{error}");
    }
}
