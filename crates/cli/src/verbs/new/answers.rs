//! What a user says about the plan to make: by flags, or by answers to questions.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use dapple_plan::spec::Pixels;

use super::Arguments;
use crate::failure::Failure;
use crate::output;

/// The part of a photograph that is to be protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProtectKind {
    /// Whole photographs
    Image,
    /// A face, wherever it is in a photograph
    Face,
    /// A number plate, wherever it is in a photograph
    Plate,
    /// A patch of a size that you give
    Patch,
    /// What masks mark in each photograph
    Regions,
}

/// What the plan is to protect.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Protection {
    Image,
    Patch { what: &'static str, size: Pixels },
    Regions { masks: PathBuf },
}

/// Everything that was said.
#[derive(Debug)]
pub(super) struct Wishes {
    pub(super) protection: Protection,
    pub(super) epsilon: f64,
    pub(super) device: Option<String>,
}

/// The largest side of a patch.
const MOST: f64 = 65536.0;

/// Asks on stderr and hears on stdin. An empty answer, or the end of the input, is the answer in brackets.
pub(super) struct Interview {
    asks: bool,
}

impl Interview {
    pub(super) fn new(asks: bool) -> Self {
        Self { asks }
    }

    /// The answer to a question, or its default if nobody is asked.
    pub(super) fn ask(&mut self, question: &str, default: &str) -> Result<String, Failure> {
        if !self.asks {
            return Ok(default.to_owned());
        }
        output::say(false, &format!("{question} [{default}]"));
        let mut line = String::new();
        let heard = std::io::stdin().lock().read_line(&mut line);
        match heard.map_err(|error| Failure::run(format!("cannot read an answer: {error}")))? {
            // Nobody is there, so nobody is asked again.
            0 => {
                self.asks = false;
                Ok(default.to_owned())
            }
            _ if line.trim().is_empty() => Ok(default.to_owned()),
            _ => Ok(line.trim().to_owned()),
        }
    }

    fn number(
        &mut self,
        (flag, given): (&str, Option<f64>),
        question: &str,
        default: f64,
    ) -> Result<f64, Failure> {
        let value = match given {
            Some(value) => value,
            None => {
                let answer = self.ask(question, &default.to_string())?;
                answer.parse().map_err(|_| no_number(flag, &answer))?
            }
        };
        match value > 0.0 && value.is_finite() {
            true => Ok(value),
            false => Err(no_number(flag, &value.to_string())),
        }
    }
}

fn no_number(flag: &str, found: &str) -> Failure {
    Failure::request(format!("--{flag}: {found} is no positive number"), format!("give --{flag} {}", 10))
}

impl Wishes {
    /// What flags leave open is asked for.
    pub(super) fn gather(arguments: &Arguments, interview: &mut Interview) -> Result<Self, Failure> {
        let kind = match (arguments.protect, &arguments.masks) {
            (Some(kind), _) => kind,
            (None, Some(_)) => ProtectKind::Regions,
            (None, None) if arguments.pixels.is_some() => ProtectKind::Patch,
            (None, None) => kind_of(&interview.ask(
                "What is to be protected: image (whole photographs), face, plate, patch, or regions (that masks mark)?",
                "image",
            )?)?,
        };
        let protection = match kind {
            ProtectKind::Image => Protection::Image,
            ProtectKind::Regions => Protection::Regions { masks: masks(arguments, interview)? },
            ProtectKind::Face => {
                Protection::Patch { what: "a face", size: patch(arguments, interview, kind)? }
            }
            ProtectKind::Plate => {
                Protection::Patch { what: "a number plate", size: patch(arguments, interview, kind)? }
            }
            ProtectKind::Patch => {
                Protection::Patch { what: "a patch", size: patch(arguments, interview, kind)? }
            }
        };
        let question = "Which epsilon may it cost? 1 is strong, 8 is usual";
        let epsilon = interview.number(("epsilon", arguments.epsilon), question, 8.0)?;
        let device = match &arguments.device {
            Some(device) => Some(device.clone()),
            None => {
                let question = "Where is it trained: auto (a GPU if there is one), cpu, or cuda?";
                Some(interview.ask(question, "auto")?).filter(|device| device != "auto")
            }
        };
        Ok(Self { protection, epsilon, device })
    }
}

fn kind_of(answer: &str) -> Result<ProtectKind, Failure> {
    ProtectKind::from_str(answer, true).map_err(|_| {
        Failure::request(
            format!("{answer} is nothing that can be protected"),
            "answer image, face, plate, patch or regions",
        )
    })
}

fn masks(arguments: &Arguments, interview: &mut Interview) -> Result<PathBuf, Failure> {
    let masks = match &arguments.masks {
        Some(masks) => masks.clone(),
        None => {
            PathBuf::from(interview.ask("Which folder holds the masks, one for each photograph?", "masks")?)
        }
    };
    match masks.is_dir() {
        true => Ok(masks),
        false => Err(Failure::request(
            format!("--masks: there is no folder {}", masks.display()),
            "a mask has the name of its photograph and marks what is private; `dapple mask` makes masks from boxes or a detector",
        )),
    }
}

/// The patch that covers the thing where it is nearest, and so largest.
///
/// # Guarantee
/// No side is smaller than the thing's, if it has so many pixels at so many metres and comes no nearer than was said: sizes in a picture
/// are in inverse proportion to the distance. It is rounded up.
fn patch(arguments: &Arguments, interview: &mut Interview, kind: ProtectKind) -> Result<Pixels, Failure> {
    let (thing, usual) = match kind {
        ProtectKind::Plate => ("a number plate", "60x30"),
        ProtectKind::Face => ("a face", "24"),
        _ => ("the patch", "24"),
    };
    let size = match arguments.pixels {
        Some(size) => size,
        None => {
            let answer = interview
                .ask(&format!("How many pixels large is {thing} at most: a side, or WxH?"), usual)?;
            answer.parse().map_err(|()| no_number("pixels", &answer))?
        }
    };
    if kind == ProtectKind::Patch {
        return scaled(size, 1.0);
    }
    let question = format!("At how many metres from the camera has {thing} so many pixels?");
    let metres = interview.number(("metres", arguments.metres), &question, 10.0)?;
    let question = format!("How near to the camera does {thing} come, in metres?");
    let nearest = interview.number(("nearest", arguments.nearest), &question, metres)?;
    scaled(size, metres / nearest)
}

fn scaled(size: Pixels, factor: f64) -> Result<Pixels, Failure> {
    let side = |length: u32| (f64::from(length) * factor).ceil();
    let (x, y) = (side(size.x), side(size.y));
    match (1.0..=MOST).contains(&x) && (1.0..=MOST).contains(&y) {
        true => Ok(Pixels { x: x as u32, y: y as u32 }),
        false => Err(Failure::request(
            format!("a patch of {x} by {y} pixels makes no sense"),
            "check --pixels, --metres and --nearest",
        )),
    }
}

/// The folder of photographs, which is asked for if it is not given.
pub(super) fn folder(given: Option<&Path>, interview: &mut Interview) -> Result<PathBuf, Failure> {
    match given {
        Some(folder) => Ok(folder.to_owned()),
        None => Ok(PathBuf::from(interview.ask("Which folder holds the photographs?", ".")?)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_large() {
        let size = Pixels { x: 24, y: 24 };
        assert_eq!(scaled(size, 1.0).unwrap(), size);
        assert_eq!(scaled(size, 10.0 / 4.0).unwrap(), Pixels { x: 60, y: 60 });
        assert_eq!(scaled(size, 1.01).unwrap(), Pixels { x: 25, y: 25 });
        assert!(scaled(size, 1e9).is_err() && scaled(Pixels { x: 0, y: 4 }, 1.0).is_err());
    }
}
