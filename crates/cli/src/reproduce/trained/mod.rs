//! The entries that train: P Table 1, P Figure 5 and P Figure 13. The others only price.

mod fig13;
mod fig5;
mod single_crop;
mod table1;
mod trade_off;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::outcome::Outcome;
use super::{Arguments, Listed};
use crate::failure::Failure;

/// Flags of the entries that train.
#[derive(Debug, Default, Args)]
pub(super) struct Flags {
    /// How much is trained: minutes, hours or days on a few cores [default: tiny]
    #[arg(long, value_name = "SCALE", help_heading = "Training")]
    scale: Option<Scale>,
    /// The data: IDX files of MNIST for patch/table1, train/ and test/ for patch/fig13 and patch/fig5, Cityscapes for patch/fig5 in full
    #[arg(long, value_name = "DIR", help_heading = "Training")]
    data: Option<PathBuf>,
    /// Trains this model of the paper's classifiers only
    #[arg(long, value_name = "MODEL", help_heading = "Training")]
    model: Option<Model>,
    /// First weights of patch/fig13, or of the backbone of patch/fig5, under torchvision's names
    #[arg(long, value_name = "FILE.safetensors", help_heading = "Training")]
    weights: Option<PathBuf>,
    /// Times that each setting is trained, from other initial weights
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100), help_heading = "Training")]
    seeds: Option<u64>,
    /// Steps of each run in place of the scale's
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=10_000_000), help_heading = "Training")]
    steps: Option<u64>,
    /// Runs at once [default: as many as cores and memory allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Training")]
    jobs: Option<u16>,
    /// Keeps the runs in this folder; those that are there already are read, or gone on with
    #[arg(long, value_name = "DIR", help_heading = "Training")]
    out: Option<PathBuf>,
}

/// How much is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Scale {
    /// Minutes on two cores
    #[default]
    Tiny,
    /// Hours
    Small,
    /// About as much as the paper, which does not always say
    Full,
}

/// The models of P section C.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    #[value(name = "resnet-18")]
    Resnet18,
    #[value(name = "vgg-11")]
    Vgg11,
}

impl Model {
    const ALL: [Self; 2] = [Self::Resnet18, Self::Vgg11];

    /// The name in plans.
    fn key(self) -> &'static str {
        match self {
            Self::Resnet18 => "resnet-18",
            Self::Vgg11 => "vgg-11",
        }
    }

    /// The name in papers.
    fn name(self) -> &'static str {
        match self {
            Self::Resnet18 => "ResNet-18",
            Self::Vgg11 => "VGG-11",
        }
    }
}

impl Flags {
    /// The first of these flags that is given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("--scale", self.scale.is_some()),
            ("--data", self.data.is_some()),
            ("--model", self.model.is_some()),
            ("--weights", self.weights.is_some()),
            ("--seeds", self.seeds.is_some()),
            ("--steps", self.steps.is_some()),
            ("--jobs", self.jobs.is_some()),
            ("--out", self.out.is_some()),
        ];
        given.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    fn jobs(&self) -> Option<usize> {
        self.jobs.map(usize::from)
    }

    fn scale(&self) -> Scale {
        self.scale.unwrap_or_default()
    }
}

/// Everything that can be asked for here.
pub(super) fn listed() -> [Listed; 3] {
    [fig5::LISTED, fig13::LISTED, table1::LISTED]
}

/// The figure or table of this name, if it is one of these; flags of training are refused for the others.
pub(super) fn outcome(id: &str, arguments: &Arguments) -> Result<Option<Outcome>, Failure> {
    let trains = listed().iter().any(|entry| entry.id == id);
    let pricing = [("--records", arguments.records.is_some()), ("--points", arguments.points.is_some())];
    match arguments.trained.given() {
        Some(flag) if !trains => Err(Failure::request(
            format!("{id} is priced, not trained: it has no {flag}"),
            format!("leave {flag} away; it is for {}", listed().map(|entry| entry.id).join(", ")),
        )),
        _ if !trains => Ok(None),
        _ => match pricing.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Failure::request(
                format!("{id} is trained, not priced: it has no {flag}"),
                format!("leave {flag} away; --scale, --seeds and --steps say how much is trained"),
            )),
            None if id == fig5::LISTED.id => fig5::outcome(arguments).map(Some),
            None if id == table1::LISTED.id => table1::outcome(arguments).map(Some),
            None => fig13::outcome(arguments).map(Some),
        },
    }
}

/// The folder behind `--data`, refused where there is none.
fn existing(data: &Path) -> Result<&Path, Failure> {
    if data.is_dir() {
        return Ok(data);
    }
    Err(Failure::request(
        format!("--data: there is no folder {}", data.display()),
        "give the folder that holds the data",
    ))
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}
