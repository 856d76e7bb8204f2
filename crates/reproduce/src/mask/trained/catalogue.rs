//! The accuracies that the masked paper prints, and the trainings that are compared.

use dapple_plan::spec::{ClassMeasure, MaskedContent, PublicGradient};
use dapple_report::Dash;
use dapple_report::paint::method;

/// What a run protects, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MaskMethod {
    /// Nothing: the same steps without clipping and noise.
    Open,
    /// Whole clips: one more or less, or one in the place of another.
    Whole(MaskedContent),
    /// Private tokens: there or not, or one content in the place of another, with this kind of public gradient.
    Tokens(MaskedContent, PublicGradient),
}

const CONTENTS: [MaskedContent; 2] = [MaskedContent::Remove, MaskedContent::Substitute];
const MODES: [PublicGradient; 3] =
    [PublicGradient::Decoupled, PublicGradient::CoupledClipped, PublicGradient::Coupled];

impl MaskMethod {
    /// The private ones: for each way in which neighbours differ whole clips, and then private tokens.
    pub(super) fn private() -> impl Iterator<Item = Self> {
        CONTENTS.into_iter().flat_map(|content| {
            [Self::Whole(content)].into_iter().chain(MODES.map(|mode| Self::Tokens(content, mode)))
        })
    }

    /// A name for folders and files.
    pub(super) fn key(self) -> String {
        match self {
            Self::Open => "open".to_owned(),
            Self::Whole(content) => format!("whole-{}", content.name()),
            Self::Tokens(content, mode) => format!("masked-{}-{}", content.name(), mode.name()),
        }
    }

    /// The name in tables and figures.
    pub(super) fn words(self) -> String {
        let differ = |content| match content {
            MaskedContent::Remove => "there or not",
            MaskedContent::Substitute => "substituted",
        };
        match self {
            Self::Open => "without privacy".to_owned(),
            Self::Whole(content) => format!("whole clips, {}", differ(content)),
            Self::Tokens(content, mode) => format!("private tokens, {}, {}", differ(content), mode.name()),
        }
    }
}

impl MaskMethod {
    /// The place in a chart's colours, which tells what is protected; its kinds of public gradients have dashes of their own.
    pub(super) fn color(self) -> usize {
        match self {
            Self::Open => method::NON_PRIVATE,
            Self::Whole(MaskedContent::Remove) => method::ADD_REMOVE,
            Self::Whole(MaskedContent::Substitute) => method::RECORD_POISSON,
            Self::Tokens(MaskedContent::Remove, _) => method::MASKED_REMOVE,
            Self::Tokens(MaskedContent::Substitute, _) => method::MASKED,
        }
    }

    /// How its line is broken up.
    pub(super) fn dash(self) -> Dash {
        match self {
            Self::Tokens(_, public_gradient) => dash_of(public_gradient),
            _ => Dash::Solid,
        }
    }
}

/// How the line of a kind of public gradient is broken up.
pub(in crate::mask) fn dash_of(public_gradient: PublicGradient) -> Dash {
    match public_gradient {
        PublicGradient::Decoupled => Dash::Solid,
        PublicGradient::CoupledClipped => Dash::Dashed,
        PublicGradient::Coupled => Dash::Dotted,
    }
}

/// A data set of a table, and what the paper prints of it in percent, at each budget and without privacy.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrintedSet {
    /// The format of the data, which is the folder's name as well.
    pub(super) format: &'static str,
    pub(super) name: &'static str,
    /// Whether its split is published as lists of files.
    pub(super) lists: bool,
    pub(super) measure: ClassMeasure,
    pub(super) delta: f64,
    /// DP-SGD on anonymised clips.
    whole: [f64; 7],
    /// MaskDP on anonymised clips.
    masked: [f64; 7],
}

/// A table of the paper.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrintedTable {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) epsilons: [f64; 6],
    /// The budgets that scale tiny trains at.
    pub(super) tiny: [f64; 3],
    pub(super) sets: [PrintedSet; 2],
}

impl PrintedTable {
    /// What the paper prints for a method, as a share of 1. It has one way for neighbours to differ: a whole clip that is there or not, and
    /// private tokens whose price fits the same.
    pub(super) fn printed(&self, set: &PrintedSet, method: MaskMethod, epsilon: Option<f64>) -> Option<f64> {
        let at = match epsilon {
            Some(epsilon) => self.epsilons.iter().position(|own| *own == epsilon)?,
            None => self.epsilons.len(),
        };
        let row = match method {
            MaskMethod::Open | MaskMethod::Whole(MaskedContent::Remove) => set.whole,
            MaskMethod::Tokens(MaskedContent::Remove, PublicGradient::Decoupled) => set.masked,
            _ => return None,
        };
        Some(row[at] / 100.0)
    }
}

/// M Tables 1 and 2, the rows of anonymised clips: those that train on the same clips with and without masks.
pub(super) const TABLES: [PrintedTable; 2] = [
    PrintedTable {
        id: "mask/table1",
        title: "Masked training on NTU RGB+D and Toyota Smarthome",
        epsilons: [0.1, 0.25, 0.5, 0.75, 1.0, 5.0],
        tiny: [0.25, 1.0, 5.0],
        sets: [
            PrintedSet {
                format: "ntu-rgb-d",
                name: "NTU RGB+D",
                lists: false,
                measure: ClassMeasure::Accuracy,
                delta: 1e-6,
                whole: [1.7, 2.29, 14.3, 30.65, 39.2, 52.9, 68.3],
                masked: [4.2, 16.18, 35.5, 48.30, 51.0, 58.0, 68.3],
            },
            PrintedSet {
                format: "toyota-smarthome",
                name: "Toyota Smarthome",
                lists: false,
                measure: ClassMeasure::ClassAccuracy,
                delta: 1e-5,
                whole: [3.0, 3.6, 4.4, 4.7, 7.3, 16.9, 26.7],
                masked: [3.2, 9.1, 11.1, 14.4, 16.9, 17.1, 26.7],
            },
        ],
    },
    PrintedTable {
        id: "mask/table2",
        title: "Masked training on HMDB-51 and UCF-101",
        epsilons: [0.5, 1.0, 2.0, 3.0, 5.0, 10.0],
        tiny: [0.5, 2.0, 5.0],
        sets: [
            PrintedSet {
                format: "hmdb-51",
                name: "HMDB-51",
                lists: true,
                measure: ClassMeasure::Accuracy,
                delta: 1e-5,
                whole: [2.4, 3.3, 4.5, 13.5, 45.7, 57.7, 60.9],
                masked: [8.2, 7.8, 26.2, 39.67, 51.5, 50.9, 60.9],
            },
            PrintedSet {
                format: "ucf-101",
                name: "UCF-101",
                lists: true,
                measure: ClassMeasure::Accuracy,
                delta: 1e-5,
                whole: [0.7, 1.5, 19.5, 65.6, 77.1, 82.1, 85.9],
                masked: [5.0, 15.4, 36.6, 63.9, 74.5, 73.9, 85.9],
            },
        ],
    },
];
