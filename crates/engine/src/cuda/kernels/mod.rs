//! Our own kernels: their sources, which are compiled when a card is first opened, and beside each source the declarations of its kernels.

mod attention;
mod carry;
mod clip;
mod convolve;
mod correlated;
mod declare;
mod gradient;
mod grouped;
mod halves;
mod image;
mod matrix;
mod narrow;
mod noise;
mod norm;
mod pointwise;
mod relative;
#[cfg(test)]
mod signatures;
mod tokens;
mod update;
mod window;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, sys};
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};

use super::Precision;
use super::error::{CudaError, call};
pub(crate) use attention::{
    AttentionAlong, AttentionForward, AttentionKeys, AttentionQueries, AttentionSizes, HeadTiles,
};
pub(crate) use carry::{Carry, ProjectFilters, ToSingle};
pub(crate) use clip::{
    AddPartials, GhostNorm, GradientBlock, GradientPart, Gram, OuterNorm, OuterSum, PartNorms, PartialRange,
    Standardise, StandardiseBackward, SumWritten,
};
pub(crate) use convolve::{SumParts, WeightGradient};
pub(crate) use correlated::{AddSteps, TakeOffLearned};
use declare::Declaration;
pub(crate) use gradient::{HalvedGradientTiles, gradient_tiles};
pub(crate) use grouped::suits_groups;
pub(crate) use halves::{HALVED_BLOCK, HalvedBlock, SizesOfSamples, SumHalves, TakePowersOff, ToHalves};
pub(crate) use image::{
    ArrangeWeights, ImageConvolve, ImageStrip, ImageWeightGradient, ImageWeightSum, TAPS,
};
pub(crate) use matrix::{
    AddLosses, CLASSES, CountLabels, LossOfParts, MatrixAddresses, PROBABILITIES, Softmax, SoftmaxBackward,
    VALUES,
};
pub(crate) use narrow::{
    MOST_FEATURES, NarrowAdd, NarrowBiasGradient, NarrowLayerAffine, NarrowLayerBackward, NarrowLayerForward,
    NarrowLayerGradients, NarrowLayerParts, NarrowUnary, NarrowUnaryBackward, norm_parts,
};
pub(crate) use noise::{AddNoise, NoiseKey};
pub(crate) use norm::{GroupBackward, GroupForward, LayerAffine, LayerBackward, LayerForward};
pub(crate) use pointwise::{
    Add, AddBias, BiasGradient, Broadcast, BroadcastBackward, ChannelScale, ChannelScaleGradient, Copy,
    Dropout, Gather, GatherBackward, MaskedDropout, MoveFour, MoveValues, Multiply, RowBiasGradient, SCALE,
    Unary, UnaryBackward,
};
pub(crate) use relative::{
    BehindFirst, RelativeQueries, RelativeScores, RelativeSums, RelativeTerms, RelativeValues,
};
pub(crate) use tokens::{HELD_WEIGHTS, TokenConv, TokenConvBackward, TokenConvGradient};
pub(crate) use update::{
    ADAM, CORRECTED_ADAM, Exchange, MEAN, MOMENTUM, MoveMean, PLAIN, UpdateBlock, UpdateValues,
};
pub(crate) use window::{
    AdaptivePool, AdaptivePoolBackward, AveragePool, AveragePoolBackward, MaxPool, MaxPoolBackward, Unfold,
    Upsample, UpsampleBackward,
};

/// What several programs share.
const COMMON: &str = include_str!("common.cu");
const HALVES: &str = include_str!("halves.cu");
const PRODUCT: &str = include_str!("product.cu");

/// The sources of the program that every graph needs, and the kernels of each.
const SOURCES: [(&str, &[Declaration]); 18] = [
    (COMMON, &[]),
    (include_str!("pointwise.cu"), pointwise::KERNELS),
    (include_str!("norm.cu"), norm::KERNELS),
    (include_str!("window.cu"), window::KERNELS),
    (include_str!("matrix.cu"), matrix::KERNELS),
    (include_str!("clip.cu"), clip::KERNELS),
    (HALVES, halves::KERNELS),
    (include_str!("narrow.cu"), narrow::KERNELS),
    (PRODUCT, &[]),
    (include_str!("gradient.cu"), gradient::KERNELS),
    (include_str!("convolve.cu"), convolve::KERNELS),
    (include_str!("image.cu"), image::KERNELS),
    (include_str!("carry.cu"), carry::KERNELS),
    (include_str!("noise.cu"), noise::KERNELS),
    (include_str!("correlated.cu"), correlated::KERNELS),
    (include_str!("update.cu"), update::KERNELS),
    (include_str!("tokens.cu"), tokens::KERNELS),
    (include_str!("relative.cu"), relative::KERNELS),
];

/// The source of attention, which is compiled for heads of one size, after what it shares with the other program.
const ATTENTION: (&str, &[Declaration]) =
    (concat!(include_str!("heads.cu"), include_str!("attention.cu")), attention::KERNELS);

/// The source of products of groups of warps, which comes after the same.
const GROUPS: (&str, &[Declaration]) = (include_str!("grouped.cu"), grouped::KERNELS);

/// Kernels that are compiled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KernelProgram {
    /// What every graph needs.
    Common,
    /// Attention in heads of this size.
    Heads(usize),
    /// Products of groups of warps, which only cards of compute capability 9.0 have.
    Groups,
}

/// How many bytes of shared memory a block of a large kernel may ask for on any card. Some cards have more.
pub(crate) const SHARED_LIMIT: usize = 99 << 10;
/// How many bytes of shared memory kernels may declare themselves.
pub(crate) const DECLARED: usize = 4 << 10;

/// Loads the kernels of a program, and allows the large ones to ask for `shared` bytes of shared memory.
pub(super) fn load(
    context: &Arc<CudaContext>,
    precision: Precision,
    program: KernelProgram,
    shared: usize,
) -> Result<BTreeMap<&'static str, CudaFunction>, CudaError> {
    let module = module(context, precision, program)?;
    let mut kernels = BTreeMap::new();
    for (name, large) in program.kernels() {
        let kernel = call("loading the kernels", module.load_function(name))?;
        if large {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            call("asking for shared memory", kernel.set_attribute(attribute, shared as i32))?;
        }
        kernels.insert(name, kernel);
    }
    Ok(kernels)
}

impl KernelProgram {
    /// The names of its kernels, and whether each may ask for much shared memory.
    fn kernels(self) -> Vec<(&'static str, bool)> {
        let declarations: Vec<&Declaration> = match self {
            Self::Common => SOURCES.iter().flat_map(|(_, declared)| *declared).collect(),
            Self::Heads(_) => ATTENTION.1.iter().collect(),
            Self::Groups => GROUPS.1.iter().collect(),
        };
        // A kernel of attention that depends on the heads has a name for each size, which is its last part.
        let is_own = |declaration: &Declaration, name: &str| match self {
            Self::Heads(size) => declaration.names.len() == 1 || name.ends_with(&format!("_{size}")),
            Self::Common | Self::Groups => true,
        };
        let mut kernels = Vec::new();
        for declaration in declarations {
            let own = declaration.names.iter().filter(|name| is_own(declaration, name));
            kernels.extend(own.map(|&name| (name, declaration.large)));
        }
        kernels
    }

    /// What is compiled, with the size of heads defined if it has one.
    fn source(self) -> String {
        match self {
            Self::Common => SOURCES.map(|(text, _)| text).concat(),
            Self::Heads(size) => format!("#define HEAD {size}\n{COMMON}{HALVES}{PRODUCT}{}", ATTENTION.0),
            Self::Groups => [COMMON, HALVES, PRODUCT, GROUPS.0].concat(),
        }
    }

    /// The oldest cards that have the instructions it uses.
    fn architecture(self) -> &'static str {
        match self {
            Self::Common | Self::Heads(_) => "compute_80",
            Self::Groups => "compute_90a",
        }
    }
}

/// The kernels of a program on a card. They are loaded once for each process, card and precision, by one thread while others wait, because
/// the driver takes about a second to compile them for the card. They stay loaded, as the card's context does.
fn module(
    context: &Arc<CudaContext>,
    precision: Precision,
    program: KernelProgram,
) -> Result<Arc<CudaModule>, CudaError> {
    static MODULES: Mutex<BTreeMap<(usize, usize, KernelProgram), Arc<CudaModule>>> =
        Mutex::new(BTreeMap::new());
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (context.ordinal(), precision as usize, program);
    if let Some(module) = modules.get(&key) {
        return Ok(module.clone());
    }
    let module = call("loading the kernels", context.load_module(image(precision, program)?))?;
    modules.insert(key, module.clone());
    Ok(module)
}

/// A compiled program. It is compiled once for each process and precision, for the oldest cards that have the instructions it uses; the
/// driver does the rest.
fn image(precision: Precision, program: KernelProgram) -> Result<Ptx, CudaError> {
    static IMAGES: Mutex<BTreeMap<(usize, KernelProgram), Ptx>> = Mutex::new(BTreeMap::new());
    let mut images = IMAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (precision as usize, program);
    if let Some(image) = images.get(&key) {
        return Ok(image.clone());
    }
    let options = CompileOptions {
        arch: Some(program.architecture()),
        options: vec!["-std=c++17".into(), format!("-DPRECISION={}", precision as usize)],
        ..CompileOptions::default()
    };
    let compiled = call("compiling the kernels", compile_ptx_with_opts(program.source(), options))?;
    images.insert(key, compiled.clone());
    Ok(compiled)
}
