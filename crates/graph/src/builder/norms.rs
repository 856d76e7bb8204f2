//! How norms are added to a graph, with their scales and shifts.

use super::GraphBuilder;
use crate::error::GraphError;
use crate::graph::NodeId;
use crate::init::Init;
use crate::op::{Affine, BatchNorm, GroupNorm, LayerNorm, NormAxes};

impl GraphBuilder {
    /// Adds the parameters `name.weight`, a scale that starts at one, and `name.bias`, a shift that starts at zero.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn affine(&mut self, name: &str, features: usize) -> Result<Affine, GraphError> {
        self.scale_and_shift(name, &[features], true)
    }

    /// Adds a scale of one and, if asked, a shift of zero, of this shape.
    fn scale_and_shift(&mut self, name: &str, shape: &[usize], shift: bool) -> Result<Affine, GraphError> {
        let weight = self.parameter(&format!("{name}.weight"), shape, Init::Constant(1.0), false)?;
        let bias = match shift {
            true => Some(self.parameter(&format!("{name}.bias"), shape, Init::Constant(0.0), false)?),
            false => None,
        };
        Ok(Affine { weight, bias })
    }

    /// Adds a group norm over `groups` groups with its affine parameters.
    ///
    /// # Errors
    /// If the channels do not divide into the groups or the name is taken.
    pub fn group_norm(&mut self, name: &str, input: NodeId, groups: usize) -> Result<NodeId, GraphError> {
        let affine = Some(self.affine(name, self.shape(input).first().copied().unwrap_or(0))?);
        self.add(name, GroupNorm { groups, eps: 1e-5, affine }, &[input])
    }

    /// Adds a layer norm over the last axis with its affine parameters.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn layer_norm(&mut self, name: &str, input: NodeId, eps: f32) -> Result<NodeId, GraphError> {
        self.layer_norm_over(name, input, NormAxes::Last(1), eps)
    }

    /// Adds a layer norm over some axes with its affine parameters, which have the shape of what is normalised together.
    ///
    /// # Errors
    /// If there are no such axes or the name is taken.
    pub fn layer_norm_over(
        &mut self,
        name: &str,
        input: NodeId,
        over: NormAxes,
        eps: f32,
    ) -> Result<NodeId, GraphError> {
        self.norm_over(name, input, over, true, eps)
    }

    /// Adds an RMS norm over some axes with its scale. It takes no mean off, and shifts nothing.
    ///
    /// # Errors
    /// If there are no such axes or the name is taken.
    pub fn rms_norm(
        &mut self,
        name: &str,
        input: NodeId,
        over: NormAxes,
        eps: f32,
    ) -> Result<NodeId, GraphError> {
        self.norm_over(name, input, over, false, eps)
    }

    fn norm_over(
        &mut self,
        name: &str,
        input: NodeId,
        over: NormAxes,
        centred: bool,
        eps: f32,
    ) -> Result<NodeId, GraphError> {
        let refuse = |reason| GraphError::Shape { node: name.into(), op: "LayerNorm", reason };
        let features = over.of(self.shape(input)).map_err(refuse)?.to_vec();
        let affine = Some(self.scale_and_shift(name, &features, centred)?);
        self.add(name, LayerNorm { over, centred, eps, affine }, &[input])
    }

    /// Adds a batch norm. With `training` the validator will refuse it; without, it applies its stored statistics, and its scale and shift
    /// do not train unless asked to.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn batch_norm(&mut self, name: &str, input: NodeId, training: bool) -> Result<NodeId, GraphError> {
        let channels = self.shape(input).first().copied().unwrap_or(0);
        let affine = self.affine(name, channels)?;
        let zero = Init::Constant(0.0);
        let mean = self.parameter(&format!("{name}.running_mean"), &[channels], zero, true)?;
        let one = Init::Constant(1.0);
        let variance = self.parameter(&format!("{name}.running_var"), &[channels], one, true)?;
        if !training {
            affine.parameters().into_iter().for_each(|id| self.parameters[id.0].trainable = false);
        }
        self.add(name, BatchNorm { eps: 1e-5, training, affine, mean, variance }, &[input])
    }
}
