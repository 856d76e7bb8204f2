//! How a fresh model is filled, and the values of a model's parameters.

use std::ops::Range;

use crate::graph::{Graph, Parameter, ParameterId};

/// How a parameter of a fresh model is filled. `fan_in` and `fan_out` count a filter's inputs and outputs, each times the taps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// The same value everywhere.
    Constant(f32),
    /// Normal with mean zero and this standard deviation.
    Normal(f32),
    /// Normal with variance `2 / fan_out` (He et al. 2015), torchvision's choice for convolutions.
    KaimingNormalFanOut,
    /// Uniform in `+- 1 / sqrt(fan_in)`, PyTorch's default for linear layers and convolutions.
    UniformFanIn,
    /// Uniform in `+- 1 / sqrt(n)` for a given `n`: PyTorch's default for the bias of a layer with fan-in `n`.
    UniformInverseRoot(usize),
    /// Uniform in `+- sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio 2010).
    XavierUniform,
}

impl Init {
    fn fill(self, parameter: &Parameter, random: &mut Random, values: &mut [f32]) {
        let (fan_in, fan_out) = fans(&parameter.shape);
        match self {
            Self::Constant(value) => values.fill(value),
            Self::Normal(deviation) => values.fill_with(|| (random.normal() * f64::from(deviation)) as f32),
            Self::KaimingNormalFanOut => {
                let deviation = (2.0 / fan_out).sqrt();
                values.fill_with(|| (random.normal() * deviation) as f32);
            }
            Self::UniformFanIn => values.fill_with(|| (random.symmetric() / fan_in.sqrt()) as f32),
            Self::UniformInverseRoot(n) => {
                values.fill_with(|| (random.symmetric() / (n as f64).sqrt()) as f32)
            }
            Self::XavierUniform => {
                let bound = (6.0 / (fan_in + fan_out)).sqrt();
                values.fill_with(|| (random.symmetric() * bound) as f32);
            }
        }
    }
}

/// The fan-in and fan-out of a parameter, as PyTorch counts them.
fn fans(shape: &[usize]) -> (f64, f64) {
    let taps: usize = shape.iter().skip(2).product();
    let out = shape.first().copied().unwrap_or(1);
    let input = shape.get(1).copied().unwrap_or(out);
    ((input * taps) as f64, (out * taps) as f64)
}

/// The values of all parameters of a graph in one vector, in the order of the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    values: Vec<f32>,
    offsets: Vec<usize>,
}

impl Parameters {
    /// Parameters that are all zero.
    pub fn zeros(graph: &Graph) -> Self {
        let mut offsets = vec![0];
        for parameter in graph.parameters() {
            offsets.push(offsets[offsets.len() - 1] + parameter.len());
        }
        Self { values: vec![0.0; offsets[offsets.len() - 1]], offsets }
    }

    /// The parameters of a fresh model. The seed decides them all, which is safe, because initial weights are no secret.
    pub fn init(graph: &Graph, seed: u64) -> Self {
        let mut parameters = Self::zeros(graph);
        let mut random = Random(seed);
        for (index, parameter) in graph.parameters().iter().enumerate() {
            let range = parameters.range(ParameterId(index));
            parameter.init.fill(parameter, &mut random, &mut parameters.values[range]);
        }
        parameters
    }

    /// Where a parameter lies in [`Parameters::values`].
    pub fn range(&self, id: ParameterId) -> Range<usize> {
        self.offsets[id.0]..self.offsets[id.0 + 1]
    }

    /// The values of one parameter.
    pub fn get(&self, id: ParameterId) -> &[f32] {
        &self.values[self.range(id)]
    }

    /// The values of one parameter, to change.
    pub fn get_mut(&mut self, id: ParameterId) -> &mut [f32] {
        let range = self.range(id);
        &mut self.values[range]
    }

    /// All values.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, to change.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Whether there are as many values for each parameter as this graph asks for.
    pub fn fit(&self, graph: &Graph) -> bool {
        self.offsets.len() == graph.parameters().len() + 1
            && graph.parameters().iter().enumerate().all(|(i, p)| self.range(ParameterId(i)).len() == p.len())
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): a small generator for initial weights, never for privacy.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `(0, 1)`.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform in `(-1, 1)`.
    fn symmetric(&mut self) -> f64 {
        2.0 * self.uniform() - 1.0
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConvSpec, GraphBuilder, Loss, Window};

    #[test]
    fn kaiming_has_the_variance_it_promises() {
        let mut builder = GraphBuilder::new(&[32, 8, 8]);
        let x = builder.conv("conv", builder.input(), ConvSpec::new(64, Window::square(3))).unwrap();
        let graph = builder.finish(x, Loss::SquaredError).unwrap();
        let parameters = Parameters::init(&graph, 7);
        let n = parameters.values().len() as f64;
        let second: f64 = parameters.values().iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / n;
        let want = 2.0 / (64.0 * 9.0);
        // The mean of n squared normals has a relative deviation of sqrt(2 / n) = 1.04%; one seed in 1.7e6 would exceed five of them.
        assert!((second / want - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{second} {want}");
    }

    #[test]
    fn the_seed_decides_everything() {
        let mut builder = GraphBuilder::new(&[4]);
        let x = builder
            .linear("fc", builder.input(), 3, Init::XavierUniform, Init::UniformInverseRoot(4))
            .unwrap();
        let graph = builder.finish(x, Loss::SquaredError).unwrap();
        assert_eq!(Parameters::init(&graph, 1), Parameters::init(&graph, 1));
        assert_ne!(Parameters::init(&graph, 1), Parameters::init(&graph, 2));
    }
}
