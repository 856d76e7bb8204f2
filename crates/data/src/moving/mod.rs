//! Clips of moving shapes drawn by the program, with the exact place of the shape in every frame.
//!
//! They stand in for videos of people where there are none: the class of a clip is what its shape does, and the background gives it away
//! more often than not, as a pitch does in videos of sports. So both parts of a clip tell something about its class.

mod drawing;

use dapple_geometry::{Mask, Size};
use dapple_plan::number::hexadecimal;
use dapple_plan::spec::PrivateThing;
use sha2::{Digest, Sha256};

use crate::clips::evenly_spaced;
use crate::keys::{MasterKey, Purpose, StepKey};
use crate::{DataError, Dataset, Image, Target};

/// Width and height of a clip.
pub const MOVING_SIDE: u32 = 32;
/// The frames of a clip, of which the plan says how many are shown.
pub const MOVING_FRAMES: usize = 32;
/// Width and height of the smallest patch that covers every shape in every frame.
pub const MOVING_PATCH: [u32; 2] = [10, 10];
/// How far, along x and y, such a patch must move at most to cover the shape in every frame of a clip.
pub const MOVING_TRAVEL: [u32; 2] = [12, 12];

/// Clips to train on.
pub const TRAIN_MOVING: usize = 960;
/// Clips to test on.
pub const TEST_MOVING: usize = 240;

/// What the shape of a clip does.
pub const MOTIONS: [&str; 6] = ["right", "left", "down", "up", "grow", "shrink"];

/// Clips of one seed. Each is drawn when it is read, and always comes out the same.
#[derive(Debug)]
pub struct MovingShapes {
    seed: u64,
    count: usize,
    size: Size,
    frames: usize,
    private: PrivateThing,
    names: Vec<String>,
    key: StepKey,
}

/// The training and the test clips of the format `moving-shapes`, of which that many frames are shown.
///
/// # Errors
/// No frames.
pub fn moving_shapes(
    frames: usize,
    private: PrivateThing,
) -> Result<(MovingShapes, MovingShapes), DataError> {
    let of = |seed, count| MovingShapes::new(seed, count, frames, private);
    Ok((of(1, TRAIN_MOVING)?, of(2, TEST_MOVING)?))
}

impl MovingShapes {
    /// The first `count` clips of a seed.
    ///
    /// # Errors
    /// A count of zero, or no frames.
    pub fn new(seed: u64, count: usize, frames: usize, private: PrivateThing) -> Result<Self, DataError> {
        if count == 0 || frames == 0 {
            return Err(DataError::Empty { path: "moving-shapes".into(), what: "clip" });
        }
        let size = Size::new(MOVING_SIDE, MOVING_SIDE).map_err(DataError::geometry("moving-shapes"))?;
        let names = MOTIONS.map(str::to_owned).to_vec();
        // Clips are public: their seed is no secret.
        let key = MasterKey::from_seed(seed).purpose(Purpose::Split).step(1);
        Ok(Self { seed, count, size, frames, private, names, key })
    }

    fn plan(&self, record: usize) -> Result<drawing::MovingClip, DataError> {
        match record < self.count {
            true => Ok(drawing::MovingClip::draw(&mut self.key.stream(record as u64))),
            false => Err(DataError::Record { record, records: self.count }),
        }
    }

    /// The values of all frames that are shown, `[frames, height, width, channels]`.
    fn pixels(&self, record: usize) -> Result<Vec<u8>, DataError> {
        let clip = self.plan(record)?;
        Ok(evenly_spaced(MOVING_FRAMES, self.frames).flat_map(|frame| clip.frame(frame)).collect())
    }
}

impl Dataset for MovingShapes {
    fn len(&self) -> usize {
        self.count
    }

    fn classes(&self) -> u32 {
        MOTIONS.len() as u32
    }

    fn channels(&self) -> usize {
        3
    }

    fn frames(&self) -> Option<usize> {
        Some(self.frames)
    }

    fn image_size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        self.plan(record).map(|clip| Target::Class(clip.class()))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let missing = DataError::Record { record, records: self.count };
        Image::clip(self.size, 3, self.frames, &self.pixels(record)?).ok_or(missing)
    }

    fn frame_masks(&self, record: usize, size: Size) -> Result<Option<Vec<Mask>>, DataError> {
        let (clip, place) = (self.plan(record)?, || self.place(record));
        let of_frame = |frame: usize| {
            let shape = Mask::from_fn(self.size, |x, y| clip.covers(frame, x as i32, y as i32))
                .map_err(DataError::geometry(place()))?;
            Ok(match self.private {
                PrivateThing::Object => shape,
                PrivateThing::Background => shape.complement(),
            })
        };
        if size != self.size {
            return Err(DataError::ImageSize { place: place(), found: size, expected: self.size });
        }
        evenly_spaced(MOVING_FRAMES, self.frames).map(of_frame).collect::<Result<_, _>>().map(Some)
    }

    fn place(&self, record: usize) -> String {
        format!("moving-shapes of seed {}, record {record}", self.seed)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        let mut hash = Sha256::new();
        hash.update(format!("{:?}", self.private));
        hash.update(self.images_fingerprint()?);
        Ok(hexadecimal(&hash.finalize()))
    }

    fn images_fingerprint(&self) -> Result<String, DataError> {
        let mut hash = Sha256::new();
        for record in 0..self.count {
            hash.update(self.plan(record)?.class().to_le_bytes());
            hash.update(self.pixels(record)?);
        }
        Ok(hexadecimal(&hash.finalize()))
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.names)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Values;

    const SMALL: usize = 120;

    fn shapes(private: PrivateThing) -> MovingShapes {
        MovingShapes::new(1, SMALL, MOVING_FRAMES, private).unwrap()
    }

    #[test]
    fn masks_are_exact_and_no_larger_than_the_patch_that_covers_them() {
        let clips = shapes(PrivateThing::Object);
        let (mut largest, mut farthest) = ([0; 2], [0; 2]);
        for record in 0..SMALL {
            let masks = clips.frame_masks(record, clips.size).unwrap().unwrap();
            assert_eq!(masks.len(), MOVING_FRAMES);
            let boxes: Vec<_> = masks.iter().map(|mask| mask.bounding_box().unwrap()).collect();
            for (_, _, size) in &boxes {
                largest = [largest[0].max(size.width()), largest[1].max(size.height())];
            }
            // The path of a patch of MOVING_PATCH that covers the shape in every frame.
            let span = |first: fn(&(u32, u32, Size)) -> u32, last: fn(&(u32, u32, Size)) -> u32| {
                boxes.iter().map(last).max().unwrap() - boxes.iter().map(first).min().unwrap()
            };
            let across = [span(|b| b.0, |b| b.0 + b.2.width()), span(|b| b.1, |b| b.1 + b.2.height())];
            for (axis, across) in across.into_iter().enumerate() {
                farthest[axis] = farthest[axis].max(across.saturating_sub(MOVING_PATCH[axis]));
            }
            // What the shape covers has its colour and nothing else has, so that each part tells of itself alone.
            let image = clips.read(record).unwrap();
            let Values::Bytes(values) = image.values() else { panic!("bytes") };
            let mut colours = BTreeSet::new();
            for (pixel, values) in values.chunks_exact(3 * MOVING_FRAMES).enumerate() {
                for frame in (0..MOVING_FRAMES).filter(|&frame| masks[frame].bytes()[pixel] == 1) {
                    colours.insert([0, 1, 2].map(|channel| values[channel * MOVING_FRAMES + frame]));
                }
            }
            assert_eq!(colours.len(), 1);
        }
        assert_eq!(largest, MOVING_PATCH);
        assert!(
            (0..2).all(
                |axis| farthest[axis] <= MOVING_TRAVEL[axis] && farthest[axis] + 2 >= MOVING_TRAVEL[axis]
            ),
            "{farthest:?}"
        );
    }

    #[test]
    fn the_private_part_can_be_either() {
        let [object, background] = [PrivateThing::Object, PrivateThing::Background].map(shapes);
        let masks = |clips: &MovingShapes| clips.frame_masks(3, clips.size).unwrap().unwrap();
        let complements: Vec<Mask> = masks(&object).iter().map(Mask::complement).collect();
        assert_eq!(masks(&background), complements);
        assert_eq!(object.read(3).unwrap(), background.read(3).unwrap());
        assert_ne!(object.fingerprint().unwrap(), background.fingerprint().unwrap());
        assert_eq!(object.images_fingerprint().unwrap(), background.images_fingerprint().unwrap());
    }

    #[test]
    fn every_class_is_drawn_and_no_clip_twice() {
        let (train, test) = moving_shapes(2, PrivateThing::Object).unwrap();
        let mut seen = BTreeSet::new();
        let mut counts = [0; MOTIONS.len()];
        for clips in [&train, &test] {
            for record in 0..clips.len() {
                assert!(seen.insert(clips.pixels(record).unwrap()), "{}", clips.place(record));
                counts[clips.label(record).unwrap() as usize] += 1;
            }
        }
        // A sixth of 1200 each, with a standard deviation of 13.
        assert!(counts.iter().all(|&count| (130..=270).contains(&count)), "{counts:?}");
    }

    #[test]
    fn clips_are_always_the_same() {
        // Fixed once, because changing the clips changes every figure that was measured on them.
        let clips = MovingShapes::new(1, 20, 8, PrivateThing::Object).unwrap();
        assert_eq!(&clips.images_fingerprint().unwrap()[..16], "789f7f75267fca7c");
    }
}
