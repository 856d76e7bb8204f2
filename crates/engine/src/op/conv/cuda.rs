//! How the card runs a convolution.

use dapple_graph::ParameterId;
use dapple_graph::op::Conv;

use crate::cuda::arrange;
use crate::cuda::backward::CardParameterGradients;
use crate::cuda::clip::WeightSum;
use crate::cuda::cudnn::{ConvolutionDirection, Tensors};
use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::geometry::Geometry;
use crate::cuda::lower::CardSteps;
use crate::cuda::memory::CardModel;
use crate::cuda::operation::{CudaKernel, CudaOperation, ShapedNode};
use crate::cuda::program::{PRODUCTS, written};
use crate::cuda::run::CardRun;
use crate::cuda::slice::DeviceSlice;
use crate::cuda::tile::{STEP, Tile, one_run};

/// The most positions that a deferred convolution may have, input and output together, so that their sums fit a block's shared memory.
const MOST_POSITIONS: usize = 4096;

/// A convolution, with everything on the card that belongs to it.
#[derive(Debug, Clone)]
pub(crate) struct CudaConvKernel {
    pub(crate) geometry: Geometry,
    pub(crate) weight: ParameterId,
    pub(crate) bias: Option<ParameterId>,
    pub(crate) standardise: Option<f32>,
    /// The tilings of each sample's weight gradient, of the forward pass and of the data gradient, each if there is one. The data gradient
    /// has a tiling for every remainder by the stride.
    pub(crate) gradient_tile: Option<Tiled>,
    pub(crate) forward_tile: Option<Tiled>,
    pub(crate) backward_tiles: Option<Vec<Tiled>>,
    /// The same convolution over only the positions that it reads, if there are others that it skips.
    pub(crate) read: Option<Geometry>,
    /// The tiling of the sum of all samples' weight gradients, over the positions that are read.
    pub(crate) sum_tile: Option<Tiled>,
    /// The tables of taps and positions for a weight gradient without a tiling.
    pub(crate) tables: (usize, usize),
    /// The table of which input position each tap of each output position reads, if a norm by inner products may ask for it.
    pub(crate) sources: usize,
    /// The table of the window, and that of a window over the output's own positions.
    pub(crate) windows: (usize, usize),
    /// Where the standardised weights and one over the deviations of their filters lie.
    pub(crate) used: Option<(usize, usize)>,
}

/// A tiling, where its tables lie on the card, and where its weights lie there in the order in which it reads them.
#[derive(Debug, Clone)]
pub(crate) struct Tiled {
    pub(crate) tile: Tile,
    pub(crate) offsets: usize,
    pub(crate) taps: usize,
    pub(crate) arranged: usize,
    /// How many rows of weights are arranged for it.
    pub(crate) rows: usize,
}

impl Tiled {
    /// Places a tiling's tables, and weights for this many rows of products.
    fn new(steps: &mut CardSteps, tile: Tile, rows: usize) -> Self {
        let (offsets, taps) = (steps.table(tile.offsets.clone()), steps.table(tile.taps.clone()));
        let arranged = steps.arranged_len;
        // Rows are copied four numbers at a time.
        steps.arranged_len += (rows * tile.inner).next_multiple_of(4);
        Self { tile, offsets, taps, arranged, rows }
    }
}

impl CudaConvKernel {
    /// Lowers a convolution of these sizes, with its tilings and tables. `data` says whether its data gradient is ever wanted.
    pub(crate) fn new(conv: &Conv, geometry: Geometry, data: bool, steps: &mut CardSteps) -> Self {
        let Conv { weight, bias, standardise, .. } = conv;
        let gradient_tile = Tile::weight_gradient(&geometry).map(|tile| Tiled::new(steps, tile, 0));
        let read = geometry.read();
        let sum_tile = Tile::weight_sum(read.as_ref().unwrap_or(&geometry));
        let sum_tile = sum_tile.map(|tile| Tiled::new(steps, tile, 0));
        let tables = match gradient_tile {
            Some(_) => (0, 0),
            None => {
                let (taps, places) = geometry.forward_tables();
                (steps.table(taps), steps.table(places))
            }
        };
        let forward_tile = Tile::forward(&geometry).map(|tile| Tiled::new(steps, tile, geometry.out));
        let tiles = Tile::backward(&geometry).filter(|_| data);
        let backward_tiles = tiles.map(|tiles| {
            tiles.into_iter().map(|tile| Tiled::new(steps, tile, geometry.channels)).collect::<Vec<_>>()
        });
        let used = standardise.map(|_| {
            let place = (steps.used_len, steps.inverses_len);
            steps.used_len += geometry.weight_len();
            steps.inverses_len += geometry.out;
            place
        });
        let windows = (steps.table(geometry.window_table()), steps.table(geometry.output_table()));
        let mut conv = Self {
            geometry,
            weight: *weight,
            bias: *bias,
            standardise: *standardise,
            gradient_tile,
            forward_tile,
            backward_tiles,
            read,
            sum_tile,
            tables,
            sources: 0,
            windows,
            used,
        };
        if conv.prefers_ghost(1) {
            conv.sources = steps.table(conv.deferred().0.sources());
        }
        conv
    }

    /// The geometry and the tiling for norms by inner products, and for the sum of gradients that are never written down.
    pub(crate) fn deferred(&self) -> (&Geometry, Option<&Tiled>) {
        (self.read.as_ref().unwrap_or(&self.geometry), self.sum_tile.as_ref())
    }

    /// Computes every sample's weight gradient, or only its norm, from the two sides of the convolution: its input, and the gradient of its
    /// output.
    pub(crate) fn weight_gradient(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        (x, g): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        if let Some(target) = parameters.written(run, Some(self.weight)) {
            run.weight_gradient(node, self, (x, g), target.values)?;
            run.mark("convolution weight gradient")?;
        } else if run.norms && run.program.deferred[node] {
            run.convolution_norm(self, x, g, parameters.layout)?;
            run.mark("convolution ghost norm")?;
        }
        Ok(())
    }

    /// How many numbers of a sample's input are gathered because others are skipped; zero if all are read.
    pub(crate) fn read_len(&self) -> usize {
        self.read.as_ref().map_or(0, |geometry| geometry.channels * geometry.positions())
    }
}

impl CudaOperation for Conv {
    fn kernel(&self, node: &ShapedNode<'_>, steps: &mut CardSteps) -> Box<dyn CudaKernel> {
        let geometry = Geometry::new(&self.window, self.groups, node.input(), node.shape);
        Box::new(CudaConvKernel::new(self, geometry, node.wanted, steps))
    }
}

impl CudaKernel for CudaConvKernel {
    fn forward(&self, run: &mut CardRun<'_>, node: usize) -> Result<(), CudaError> {
        let y = run.value(node);
        let tensors = Tensors { input: run.read(node, 0), weight: run.weight(self), output: y };
        run.convolve(node, self, ConvolutionDirection::Forward, tensors, false)?;
        run.add_bias(node, self.bias, (self.geometry.out, self.geometry.positions()))
    }

    fn backward(
        &self,
        run: &mut CardRun<'_>,
        node: usize,
        parameters: &mut CardParameterGradients<'_>,
    ) -> Result<(), CudaError> {
        let (g, x) = (run.gradient(node), run.read(node, 0));
        run.channel_bias_gradient(
            node,
            self.bias,
            (self.geometry.out, self.geometry.positions()),
            parameters,
        )?;
        self.weight_gradient(run, node, (x, g), parameters)?;
        let Some(target) = run.target(node, 0) else { return Ok(()) };
        let tensors = Tensors { input: target.values, weight: run.weight(self), output: g };
        run.convolve(node, self, ConvolutionDirection::Data, tensors, target.accumulate)
    }

    fn name(&self, backward: bool) -> &'static str {
        if backward { "convolution data gradient" } else { "convolution forward" }
    }

    fn reads_input(&self, _slot: usize, trains: bool) -> bool {
        trains
    }

    fn weight(&self) -> Option<ParameterId> {
        Some(self.weight)
    }

    fn arrange(&self, device: &Device, model: &CardModel, parameters: &[usize]) -> Result<(), CudaError> {
        arrange::convolution(device, model, self, parameters[self.weight.index()])
    }

    fn convolution(&self) -> Option<&CudaConvKernel> {
        Some(self)
    }

    /// The sum of a deferred layer needs a tiling, and positions so few that the tensor cores add them up at once.
    fn prefers_ghost(&self, views: usize) -> bool {
        let (geometry, tile) = self.deferred();
        let (inside, outside) = (geometry.positions_in(), geometry.positions());
        let sums = tile.is_some() && one_run(outside.div_ceil(STEP), STEP);
        if views != 1 || geometry.groups != 1 || !sums || inside + outside > MOST_POSITIONS {
            return false;
        }
        let (inside, outside) = (inside as f64, outside as f64);
        let (channels, out) = (geometry.channels as f64, geometry.out as f64);
        // Reading one tap costs about as much as forty products.
        let spread = 40.0 * geometry.taps() as f64 * outside * outside;
        let products = 2.0 * inside * inside * channels + 2.0 * outside * outside * out + spread;
        products / PRODUCTS < written(geometry.weight_len() as f64)
    }

    fn ghost_workspace(&self, _views: usize) -> usize {
        let (geometry, _) = self.deferred();
        // With one number more than is read, and an even count, the doubles after those of all samples can be aligned.
        let read = (self.read_len() + 1).next_multiple_of(2);
        read + 2 * (geometry.positions_in().pow(2) + geometry.positions().pow(2))
    }

    fn deferred_sum(&self, run: &mut CardRun<'_>, node: usize, sum: WeightSum<'_>) -> Result<(), CudaError> {
        run.convolution_sum(self, (run.read(node, 0), run.gradient(node)), sum)
    }
}
