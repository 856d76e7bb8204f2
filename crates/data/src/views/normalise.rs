//! Normalisation by fixed constants.

use crate::DataError;

/// `(value - mean) / std` for each channel, where bytes stand for values from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Normalise {
    channels: Vec<Channel>,
    /// The number of frames of each channel, if records are clips.
    frames: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
struct Channel {
    mean: f32,
    inverse: f32,
    /// The normalised value of each byte.
    table: [f32; 256],
}

impl Normalise {
    /// Takes one constant for each channel, or one for all of them. Without constants, values stay as they are.
    pub(super) fn new(channels: usize, mean: Option<&[f64]>, std: Option<&[f64]>) -> Result<Self, DataError> {
        let constants = |key: &'static str, given: Option<&[f64]>, default: f64| match given {
            None => Ok(vec![default; channels]),
            Some([one]) => Ok(vec![*one; channels]),
            Some(each) if each.len() == channels => Ok(each.to_vec()),
            Some(other) => {
                Err(DataError::Channels { place: format!("`{key}`"), found: other.len(), expected: channels })
            }
        };
        let mean = constants("data.mean", mean, 0.0)?;
        let std = constants("data.std", std, 1.0)?;
        let bad = |key, value: f64, what: &str| DataError::setting(key, format!("{value} is not {what}"));
        if let Some(&value) = mean.iter().find(|value| !value.is_finite()) {
            return Err(bad("data.mean", value, "a number"));
        }
        if let Some(&value) = std.iter().find(|value| !(value.is_finite() && **value > 0.0)) {
            return Err(bad("data.std", value, "a positive number"));
        }
        let channel = |(&mean, &std): (&f64, &f64)| Channel {
            mean: mean as f32,
            inverse: (1.0 / std) as f32,
            table: std::array::from_fn(|byte| ((byte as f64 / 255.0 - mean) / std) as f32),
        };
        Ok(Self { channels: mean.iter().zip(&std).map(channel).collect(), frames: None })
    }

    /// The same constants for each frame of clips.
    pub(super) fn of_frames(self, frames: Option<usize>) -> Self {
        Self { frames, ..self }
    }

    pub(super) fn channels(&self) -> usize {
        self.channels.len()
    }

    pub(super) fn frames(&self) -> Option<usize> {
        self.frames
    }

    /// Planes of a view: one for each frame of each channel.
    pub(super) fn planes(&self) -> usize {
        self.channels.len() * self.frames.unwrap_or(1)
    }

    fn of_plane(&self, plane: usize) -> &Channel {
        &self.channels[plane / self.frames.unwrap_or(1)]
    }

    pub(super) fn table(&self, plane: usize) -> &[f32; 256] {
        &self.of_plane(plane).table
    }

    /// The normalised value of a pixel that is not a byte.
    pub(super) fn value(&self, plane: usize, value: f32) -> f32 {
        let Channel { mean, inverse, .. } = self.of_plane(plane);
        (value - mean) * inverse
    }

    /// What is subtracted from a channel.
    pub(super) fn mean(&self, channel: usize) -> f32 {
        self.channels[channel].mean
    }

    /// Normalises planes of values from 0 to 1, `[channels, height, width]` or `[channels, frames, height, width]`.
    pub(super) fn apply(&self, planes: &mut [f32]) {
        self.each(planes, |Channel { mean, inverse, .. }, value| (value - mean) * inverse);
    }

    /// Turns normalised planes into values from 0 to 1 again, but for rounding.
    pub(super) fn undo(&self, planes: &mut [f32]) {
        self.each(planes, |Channel { mean, inverse, .. }, value| value / inverse + mean);
    }

    fn each(&self, planes: &mut [f32], change: impl Fn(&Channel, f32) -> f32) {
        let length = planes.len() / self.channels.len();
        for (plane, channel) in planes.chunks_exact_mut(length).zip(&self.channels) {
            plane.iter_mut().for_each(|value| *value = change(channel, *value));
        }
    }

    /// The normalised value of black: what zero padding shows.
    pub(super) fn blank(&self, plane: usize) -> f32 {
        self.table(plane)[0]
    }
}
