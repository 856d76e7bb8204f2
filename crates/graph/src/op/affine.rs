//! Scale and shift of a normalisation.

use super::shape::shaped;
use crate::graph::{Parameter, ParameterId};

/// The affine parameters of a normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affine {
    /// Scale, one value per channel or feature.
    pub weight: ParameterId,
    /// Shift, one value per channel or feature; `None` if nothing is shifted.
    pub bias: Option<ParameterId>,
}

impl Affine {
    /// Both parameters, the scale first.
    pub(crate) fn parameters(self) -> Vec<ParameterId> {
        std::iter::once(self.weight).chain(self.bias).collect()
    }

    /// Checks that both have one value for each of these features, and that they are not the same parameter.
    pub(crate) fn check(self, features: &[usize], parameters: &[Parameter]) -> Result<(), String> {
        shaped("scale", self.weight, features, parameters)?;
        let Some(bias) = self.bias else { return Ok(()) };
        shaped("shift", bias, features, parameters)?;
        if self.weight == bias { Err("scale and shift are the same parameter".into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{BatchNorm, GroupNorm, LayerNorm, NormAxes, Op};
    use crate::{GraphBuilder, Init};

    #[test]
    fn scale_and_shift_of_another_size_are_refused() {
        let mut builder = GraphBuilder::new(&[6, 4, 5]);
        let input = builder.input();
        let mut parameter =
            |name: &str, len: usize| builder.parameter(name, &[len], Init::Constant(1.0), false).unwrap();
        let (six, other, five) = (parameter("six", 6), parameter("other", 6), parameter("five", 5));
        let norms = |weight, bias| -> [Op; 3] {
            let affine = Affine { weight, bias: Some(bias) };
            [
                GroupNorm { groups: 2, eps: 1e-5, affine: Some(affine) }.into(),
                LayerNorm { over: NormAxes::Last(1), centred: true, eps: 1e-5, affine: Some(affine) }.into(),
                BatchNorm { eps: 1e-5, training: false, affine, mean: six, variance: five }.into(),
            ]
        };
        for (affine, fits) in
            [((six, other), [true, false, false]), ((five, six), [false; 3]), ((six, six), [false; 3])]
        {
            for (number, (norm, fits)) in norms(affine.0, affine.1).into_iter().zip(fits).enumerate() {
                let name = format!("{number} {affine:?}");
                assert_eq!(builder.add(&name, norm, &[input]).is_ok(), fits, "{name}");
            }
        }
    }
}
