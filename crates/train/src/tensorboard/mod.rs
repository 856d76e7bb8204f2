//! Event files for TensorBoard: public values beside the run, private ones in its private part.

mod record;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use dapple_protobuf::Message;

use crate::error::TrainError;
use crate::evaluation::Evaluation;
use crate::files::{self, Access};
use crate::folder::Folder;
use crate::step::Taken;

/// What the first event of a file says, by which TensorBoard knows the format.
const VERSION: &str = "brain.Event:2";

/// The event files of a run.
#[derive(Debug)]
pub(crate) struct EventFiles {
    public: EventFile,
    private: EventFile,
}

impl EventFiles {
    /// Begins files for the steps from here on. Their names sort after those of earlier steps, and TensorBoard reads all of them.
    pub(crate) fn begin(folder: &Folder, step: u64) -> Result<Self, TrainError> {
        let (public, private) = (folder.tensorboard(), folder.private_tensorboard());
        if public.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return Err(TrainError::InTheWay { path: public });
        }
        files::create_folders(&public)?;
        files::create_private_folder(&private)?;
        Ok(Self {
            public: EventFile::begin(&public, step, EventClock::Stopped)?,
            private: EventFile::begin(&private, step, EventClock::Running)?,
        })
    }

    /// Adds an evaluation, and what the steps before it cost.
    pub(crate) fn evaluated(
        &mut self,
        step: u64,
        evaluation: &Evaluation,
        (epsilon, clip_norm): (Option<f64>, Option<f64>),
    ) -> Result<(), TrainError> {
        let overlap = evaluation.overlap.as_ref();
        self.public.add(
            step,
            &[
                ("test/accuracy", Some(evaluation.accuracy)),
                ("test/class_accuracy", evaluation.class_accuracy),
                ("test/top5", evaluation.top5),
                ("test/loss", Some(evaluation.loss)),
                ("test/miou", overlap.map(|overlap| overlap.miou)),
                ("privacy/epsilon_at_most", epsilon.map(at_least)),
                ("privacy/clip_norm", clip_norm),
            ],
        )
    }

    /// Adds a step. Its learning rate is public; what comes of the records that it drew is not.
    pub(crate) fn stepped(&mut self, step: u64, taken: &Taken, seconds: f64) -> Result<(), TrainError> {
        self.private.add(
            step,
            &[
                ("private/loss", taken.loss()),
                ("private/records_drawn", Some(taken.drawn() as f64)),
                ("private/share_clipped", taken.clipped()),
                ("private/seconds", Some(seconds)),
                ("optimiser/learning_rate", Some(taken.learning_rate)),
            ],
        )
    }
}

/// The largest step that the events of a file are about; `None` if there is none.
pub(crate) fn last_step(bytes: &[u8]) -> Option<u64> {
    record::contents(bytes).filter_map(step_of).max()
}

/// The step of an event, which is its second field.
fn step_of(mut event: &[u8]) -> Option<u64> {
    loop {
        let tag = varint(&mut event)?;
        let skipped = match tag & 7 {
            0 => {
                let value = varint(&mut event)?;
                if tag >> 3 == 2 {
                    return Some(value);
                }
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut event)?).ok()?,
            5 => 4,
            _ => return None,
        };
        event = event.get(skipped..)?;
    }
}

/// A number of seven bits in each byte, the lowest first, taken off the front.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The smallest number of single precision, which events hold, that is no less: a bound stays a bound.
fn at_least(value: f64) -> f64 {
    let nearest = value as f32;
    f64::from(if f64::from(nearest) < value { nearest.next_up() } else { nearest })
}

/// What the events of a file say about the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventClock {
    /// When they were written. How long a step took tells how many records it drew.
    Running,
    /// Nothing: their time is zero.
    Stopped,
}

/// A file of events, one after the other.
#[derive(Debug)]
struct EventFile {
    path: PathBuf,
    file: File,
    clock: EventClock,
}

impl EventFile {
    fn begin(folder: &Path, step: u64, clock: EventClock) -> Result<Self, TrainError> {
        let access = match clock {
            EventClock::Running => Access::Owner,
            EventClock::Stopped => Access::Shared,
        };
        let path = folder.join(format!("events.out.tfevents.{step:010}.dapple"));
        files::refuse_link(&path)?;
        // A file of this name is of a process that stopped before it took the step.
        let opened = files::options(access).write(true).create(true).truncate(true).open(&path);
        let file = opened.map_err(|source| TrainError::file(&path, source))?;
        let mut begun = Self { path, file, clock };
        let mut first = begun.event(0);
        first.text(3, VERSION);
        begun.write(&first)?;
        Ok(begun)
    }

    /// An event without content.
    fn event(&self, step: u64) -> Message<'static> {
        let time = match self.clock {
            EventClock::Running => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
            }
            EventClock::Stopped => 0.0,
        };
        let mut event = Message::default();
        event.double(1, time);
        event.integer(2, step.cast_signed());
        event
    }

    /// Adds the numbers of a step that are there.
    fn add(&mut self, step: u64, scalars: &[(&str, Option<f64>)]) -> Result<(), TrainError> {
        let mut summary = Message::default();
        for (name, value) in scalars {
            let Some(value) = value else { continue };
            let mut scalar = Message::default();
            scalar.text(1, name);
            scalar.float(2, *value as f32);
            summary.message(1, scalar);
        }
        let mut event = self.event(step);
        event.message(5, summary);
        self.write(&event)
    }

    fn write(&mut self, event: &Message<'_>) -> Result<(), TrainError> {
        let record = record::framed(&event.to_bytes());
        self.file.write_all(&record).map_err(|source| TrainError::file(&self.path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_tell_their_largest_step() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = EventFile::begin(folder.path(), 0, EventClock::Running).unwrap();
        let read = |file: &EventFile| last_step(&std::fs::read(&file.path).unwrap());
        // The first event tells the format alone.
        assert_eq!(read(&file), Some(0));
        for (step, largest) in [(3, 3), (300, 300), (7, 300), (1 << 40, 1 << 40)] {
            file.add(step, &[("a", Some(0.5)), ("b", None)]).unwrap();
            assert_eq!(read(&file), Some(largest));
        }
        // Bytes of an event as Google's Python package `protobuf` writes them: time 1.5, step 77, one scalar.
        let event = b"\x09\0\0\0\0\0\0\xf8\x3f\x10\x4d\x2a\x07\x0a\x05\x0a\x01a\x15\0";
        assert_eq!(step_of(event), Some(77));
        for rubbish in [
            &b""[..],
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x0a\xff\xff\x03",
            b"\x0b\x10\x01",
            b"\x08",
        ] {
            assert_eq!(step_of(rubbish), None, "{rubbish:?}");
        }
    }

    #[test]
    fn bounds_are_rounded_up() {
        for value in [0.0, 0.1, 1.0, 2.0 - 1e-12, 7.3, 1e30, f64::INFINITY] {
            let stored = at_least(value);
            // Neighbours in single precision are 2^-23 apart, relative to the smaller.
            assert!(stored >= value && stored <= value * (1.0 + 2.0_f64.powi(-23)), "{value} {stored}");
            assert_eq!(f64::from(stored as f32), stored);
        }
    }
}
