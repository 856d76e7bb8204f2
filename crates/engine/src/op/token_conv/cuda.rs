//! How the card convolves tokens.
#![allow(unsafe_code, reason = "tables on the card are the host's promise")]

use dapple_graph::ParameterId;
use dapple_graph::op::TokenConv;

use super::output_grid;
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::error::CudaError;
use crate::cuda::geometry::Geometry;
use crate::cuda::kernels::{self, HELD_WEIGHTS, TokenConvBackward, TokenConvGradient};
use crate::cuda::lower::CardSteps;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::run::CardRun;

#[derive(Debug)]
struct CudaTokenConvKernel {
    weight: ParameterId,
    features: usize,
    filters: usize,
    taps: usize,
    /// How many tokens an item has in the input, and below, in the output.
    tokens: usize,
    out_tokens: usize,
    /// Where the window's table lies.
    table: usize,
}

impl CudaOperation for TokenConv {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let clip = |grid: &[usize]| [&[1], grid].concat();
        let geometry = Geometry::new(&self.window, 1, &clip(&self.grid), &clip(&output_grid(self)));
        let features = node.features();
        Box::new(CudaTokenConvKernel {
            weight: self.weight,
            features,
            filters: features / self.heads,
            taps: geometry.taps(),
            tokens: node.rows(),
            out_tokens: node.shape[0],
            table: steps.table(geometry.window_table()),
        })
    }
}

impl CudaTokenConvKernel {
    /// Whether a block's shared memory has room for the filters.
    fn holds(&self) -> bool {
        self.filters * self.taps <= HELD_WEIGHTS
    }
}

impl CudaKernel for CudaTokenConvKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let Self { features, filters, taps, .. } = *self;
        let convolution = kernels::TokenConv {
            taps,
            x: run.read(node, 0),
            weight: run.parameter(self.weight),
            y: run.value(node),
            table: run.table(self.table),
            features,
            filters,
            n: run.items() * run.len(node),
            holds: self.holds(),
        };
        // SAFETY: the table was made from the grids of the input and of this node, and the graph has checked that the tokens fit them.
        unsafe { convolution.launch(run.device) }
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let Self { features, filters, taps, tokens, out_tokens, .. } = *self;
        let (g, table) = (run.gradient(node), run.table(self.table));
        if let Some(place) = parameters.written(run, Some(self.weight)) {
            let gradient = TokenConvGradient {
                samples: run.samples,
                taps,
                tokens,
                out_tokens,
                x: run.read(node, 0),
                g,
                d: place.values,
                stride: run.program.written,
                table,
                features,
                filters,
                views: run.program.views,
                accumulate: place.accumulate,
            };
            // SAFETY: as in the forward pass.
            unsafe { gradient.launch(run.device)? };
            run.mark("token convolution weight gradient")?;
        }
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let data = TokenConvBackward {
            taps,
            g,
            weight: run.parameter(self.weight),
            dx: target.values,
            table,
            features,
            filters,
            n: run.items() * run.input_len(node, 0),
            holds: self.holds(),
            accumulate: target.accumulate,
        };
        // SAFETY: as in the forward pass.
        unsafe { data.launch(run.device) }
    }

    fn name(&self, backward: bool) -> &'static str {
        if backward { "token convolution data gradient" } else { "token convolution forward" }
    }

    fn reads_input(&self, _slot: usize, _trains: bool) -> bool {
        true
    }
}
