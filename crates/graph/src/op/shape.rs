//! Questions about shapes that several operations ask.

use crate::graph::{Parameter, ParameterId};

/// Channels and spatial shape of an image or clip.
pub(crate) fn spatial(shape: &[usize]) -> Result<(usize, &[usize]), String> {
    match shape {
        [channels, spatial @ ..] if spatial.len() == 2 || spatial.len() == 3 => Ok((*channels, spatial)),
        _ => Err(format!(
            "{shape:?} is neither [channels, height, width] nor [channels, depth, height, width]"
        )),
    }
}

/// Size of the first axis.
pub(crate) fn channels(shape: &[usize]) -> Result<usize, String> {
    shape.first().copied().ok_or_else(|| "a scalar has no channels".into())
}

/// Size of the last axis.
pub(crate) fn last(shape: &[usize]) -> Result<usize, String> {
    shape.last().copied().ok_or_else(|| "a scalar has no last axis".into())
}

/// The number of values, or `None` if it overflows.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

/// The shape of two values, if they have the same.
pub(crate) fn equal(left: &[usize], right: &[usize]) -> Result<Vec<usize>, String> {
    if left != right {
        return Err(format!("the shapes {left:?} and {right:?} differ"));
    }
    Ok(left.to_vec())
}

/// Checks that a parameter has a shape.
pub(crate) fn shaped(
    what: &str,
    id: ParameterId,
    wanted: &[usize],
    parameters: &[Parameter],
) -> Result<(), String> {
    let shape = &parameters[id.index()].shape;
    if shape == wanted { Ok(()) } else { Err(format!("a {what} of shape {shape:?} is not of {wanted:?}")) }
}

/// Checks that a parameter is a vector of `len` values.
pub(crate) fn vector(
    what: &str,
    id: ParameterId,
    len: usize,
    parameters: &[Parameter],
) -> Result<(), String> {
    shaped(what, id, &[len], parameters)
}

/// The channels of an input, if they and `out` channels of an output divide into this many groups.
pub(crate) fn grouped_channels(input: &[usize], out: usize, groups: usize) -> Result<usize, String> {
    let (channels, _) = spatial(input)?;
    match groups != 0 && channels.is_multiple_of(groups) && out.is_multiple_of(groups) {
        true => Ok(channels),
        false => Err(format!("{channels} -> {out} channels do not divide into {groups} groups")),
    }
}
