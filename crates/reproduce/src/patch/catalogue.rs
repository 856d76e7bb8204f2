//! The figures: what each shows, under which settings, and what the paper says about it.

use dapple_plan::spec::Pixels;

use super::claims::{
    BELOW_DATA_LEVEL, BELOW_MINIBATCH, FALLS_ACROSS_PANELS, LINEAR, NEVER_SATURATES, RISES_ACROSS_PANELS,
    SATURATES,
};
use super::compute::PatchResults;
use super::setting::{PatchSetting, PrivateShape};
use crate::claim::Statement;
use crate::{CatalogueEntry, Paper};

/// A figure of the paper.
pub(super) struct PatchFigure {
    pub(super) entry: CatalogueEntry,
    pub(super) body: Body,
    pub(super) claims: &'static [Statement<PatchResults>],
    /// What the paper leaves open, and what is drawn here.
    pub(super) open: &'static [&'static str],
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Delta over epsilon, one setting a panel.
    Profiles(Vec<ProfilePanel>),
    /// Epsilon over a size, one line a sigma.
    Sweeps(Vec<Sweep>),
}

#[derive(Debug, Clone)]
pub(super) struct ProfilePanel {
    pub(super) title: String,
    pub(super) setting: PatchSetting,
}

#[derive(Debug, Clone)]
pub(super) struct Sweep {
    pub(super) title: String,
    pub(super) base: PatchSetting,
    pub(super) sigmas: &'static [f64],
    pub(super) over: SweptSize,
    pub(super) values: Vec<u32>,
}

/// What a sweep varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweptSize {
    Crop,
    Patch,
    Padding,
}

impl SweptSize {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Crop => "crop side in pixels",
            Self::Patch => "patch side in pixels",
            Self::Padding => "padding on each side in pixels",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Crop => "crop",
            Self::Patch => "patch",
            Self::Padding => "padding",
        }
    }

    /// The setting with the varied size in place.
    pub(super) fn apply(self, base: PatchSetting, value: u32) -> PatchSetting {
        match self {
            Self::Crop => PatchSetting { crop: value, ..base },
            Self::Patch => PatchSetting { shape: PrivateShape::Rectangle(value, value), ..base },
            Self::Padding => PatchSetting { padding: value, ..base },
        }
    }
}

/// The defaults of the patch-level paper (P), appendix C.4, for privacy profiles.
const PROFILE: PatchSetting = PatchSetting {
    image: Pixels { x: 1000, y: 1000 },
    crop: 100,
    padding: 0,
    shape: PrivateShape::Rectangle(10, 10),
    sigma: 1.0,
    pixel_sigma: 1000.0,
    records: 3000,
};
/// The defaults for sweeps, which have larger crops and epochs.
const SWEEP: PatchSetting = PatchSetting { crop: 450, records: 100_000, ..PROFILE };
/// P sections D.1.3 to D.1.5.
const WIDE: PatchSetting =
    PatchSetting { crop: 200, shape: PrivateShape::Rectangle(20, 20), sigma: 2.0, ..PROFILE };

const LOW: &[f64] = &[1.0, 1.5, 2.0];
const MIDDLE: &[f64] = &[2.5, 3.0, 3.5];
const HIGH: &[f64] = &[4.0, 4.5, 5.0];

const PROFILE_CLAIMS: &[Statement<PatchResults>] = &[BELOW_MINIBATCH, BELOW_DATA_LEVEL];
const GROWING: &[Statement<PatchResults>] = &[BELOW_MINIBATCH, BELOW_DATA_LEVEL, RISES_ACROSS_PANELS];
const SHRINKING: &[Statement<PatchResults>] = &[BELOW_MINIBATCH, BELOW_DATA_LEVEL, FALLS_ACROSS_PANELS];
const SWEEP_CLAIMS: &[Statement<PatchResults>] = &[SATURATES, LINEAR];
const RECTANGULAR_CLAIMS: &[Statement<PatchResults>] = &[NEVER_SATURATES, LINEAR];

const RANGE: &str = "The range of ε is not stated; it is drawn from below the smallest to above the largest ε at δ = 1e-5, each line until δ falls below 1e-12.";
const EPOCH_SIZE: &str = "Profiles use the 3000 records of appendix C.4; the paper's own runs were made with 100000 (--records 100000).";
const CROP_GRID: &str = "Crop sides are drawn from 50 to 700 in steps of 25, and 496, from which on every crop of a 1000 × 1000 image sees the patch; the paper states the range only.";
const PATCH_RANGE: &str = "Patch sides run from 1 to 120 (section 5.2), in steps of 5 and with 102, from which on every crop of a 1000 × 1000 image sees the patch; appendix C.4 says 1 to 50, where nothing saturates.";
const PADDING: &str = "The amounts of padding are not stated; 0 to 100 in steps of 5 are drawn, of zeros, which hold nothing private.";
const PADDING_RECORDS: &str =
    "Section D.3 gives the epoch size as 3000 and as 100000; 100000 is drawn (--records 3000).";
const SHAPES: &str = "Neither sizes, crop nor σ of the shapes are stated; shapes of about 200 pixels, crop 100 and σ = 1 are drawn.";

/// The entry of a figure of P.
fn entry(id: &'static str, title: &'static str, section: &'static str) -> CatalogueEntry {
    CatalogueEntry::new(Paper::PatchLevel, id, title, section)
}

fn panel(title: &str, setting: PatchSetting) -> ProfilePanel {
    ProfilePanel { title: title.to_owned(), setting }
}

fn square(side: u32) -> PrivateShape {
    PrivateShape::Rectangle(side, side)
}

/// An even grid and the size at which the curve bends.
fn sorted(grid: impl Iterator<Item = u32>, bend: u32) -> Vec<u32> {
    let mut values: Vec<u32> = grid.chain([bend]).collect();
    values.sort_unstable();
    values
}

fn crops(title: &str, image: Pixels, sigmas: &'static [f64]) -> Sweep {
    let values = sorted((2..=28).map(|step| 25 * step), 496);
    Sweep {
        title: title.to_owned(),
        base: PatchSetting { image, ..SWEEP },
        sigmas,
        over: SweptSize::Crop,
        values,
    }
}

fn patches(title: &str, image: Pixels, sigmas: &'static [f64]) -> Sweep {
    let values = sorted((1..=24).map(|step| 5 * step).chain([1]), 102);
    Sweep {
        title: title.to_owned(),
        base: PatchSetting { image, ..SWEEP },
        sigmas,
        over: SweptSize::Patch,
        values,
    }
}

fn paddings(title: &str, crop: u32, patch: u32, sigmas: &'static [f64]) -> Sweep {
    let base = PatchSetting { crop, shape: square(patch), ..SWEEP };
    let values = (0..=20).map(|fives| 5 * fives).collect();
    Sweep { title: title.to_owned(), base, sigmas, over: SweptSize::Padding, values }
}

/// One of figures 23 to 28: crop sizes and patch sizes at one resolution and three sigmas.
fn both(id: &'static str, title: &'static str, image: Pixels, sigmas: &'static [f64]) -> PatchFigure {
    let claims = if image == PROFILE.image { SWEEP_CLAIMS } else { RECTANGULAR_CLAIMS };
    let sweeps = vec![crops("Patch 10 × 10", image, sigmas), patches("Crop 450 × 450", image, sigmas)];
    PatchFigure {
        entry: entry(id, title, "D.2"),
        body: Body::Sweeps(sweeps),
        claims,
        open: &[CROP_GRID, PATCH_RANGE],
    }
}

/// One of figures 29 to 31: panels over the padding.
fn padded(id: &'static str, title: &'static str, sweeps: Vec<Sweep>) -> PatchFigure {
    PatchFigure {
        entry: entry(id, title, "D.3"),
        body: Body::Sweeps(sweeps),
        claims: &[],
        open: &[PADDING, PADDING_RECORDS],
    }
}

fn profiles(
    id: &'static str,
    title: &'static str,
    section: &'static str,
    claims: &'static [Statement<PatchResults>],
    panels: Vec<ProfilePanel>,
) -> PatchFigure {
    PatchFigure {
        entry: entry(id, title, section),
        body: Body::Profiles(panels),
        claims,
        open: &[RANGE, EPOCH_SIZE],
    }
}

/// Every figure, in the paper's order.
pub(super) fn all() -> Vec<PatchFigure> {
    let (plain, wide) = (PROFILE.image, Pixels { x: 2000, y: 1000 });
    let sigma = |sigma: f64| PatchSetting { sigma, ..PROFILE };
    let patch = |side: u32| PatchSetting { shape: square(side), ..PROFILE };
    let crop = |crop: u32| PatchSetting { crop, ..WIDE };
    let shape = |shape: PrivateShape| PatchSetting { shape, ..PROFILE };
    vec![
        profiles(
            "patch/fig2",
            "Privacy profiles of three mechanisms",
            "5.1",
            PROFILE_CLAIMS,
            vec![panel("(a) Patch 10 × 10", patch(10)), panel("(b) Patch 20 × 20", patch(20))],
        ),
        PatchFigure {
            entry: entry("patch/fig3", "Privacy over the crop size", "5.2"),
            body: Body::Sweeps(vec![crops("Patch 10 × 10", plain, HIGH)]),
            claims: &[SATURATES],
            open: &[CROP_GRID],
        },
        PatchFigure {
            entry: entry("patch/fig4", "Privacy over the size of the private patch", "5.2"),
            body: Body::Sweeps(vec![patches("Crop 450 × 450", plain, HIGH)]),
            claims: SWEEP_CLAIMS,
            open: &[PATCH_RANGE],
        },
        profiles(
            "patch/fig17",
            "Privacy profiles under varying noise",
            "D.1.1",
            SHRINKING,
            vec![panel("σ = 1", sigma(1.0)), panel("σ = 2", sigma(2.0)), panel("σ = 4", sigma(4.0))],
        ),
        profiles(
            "patch/fig18",
            "Privacy profiles under varying patch sizes",
            "D.1.2",
            GROWING,
            vec![
                panel("Patch 10 × 10", patch(10)),
                panel("Patch 20 × 20", patch(20)),
                panel("Patch 40 × 40", patch(40)),
            ],
        ),
        profiles(
            "patch/fig19",
            "Privacy profiles under varying crop sizes",
            "D.1.3",
            GROWING,
            vec![
                panel("Crop 100 × 100", crop(100)),
                panel("Crop 200 × 200", crop(200)),
                panel("Crop 400 × 400", crop(400)),
            ],
        ),
        profiles(
            "patch/fig20",
            "Privacy profiles under varying image resolutions",
            "D.1.4",
            SHRINKING,
            vec![
                panel("Image 1000 × 1000", WIDE),
                panel("Image 2000 × 2000", PatchSetting { image: Pixels { x: 2000, y: 2000 }, ..WIDE }),
            ],
        ),
        profiles(
            "patch/fig21",
            "Privacy profiles under varying data-level noise",
            "D.1.5",
            PROFILE_CLAIMS,
            vec![
                panel("Data-level noise 1000", WIDE),
                panel("Data-level noise 2000", PatchSetting { pixel_sigma: 2000.0, ..WIDE }),
            ],
        ),
        PatchFigure {
            open: &[SHAPES, RANGE, EPOCH_SIZE],
            ..profiles(
                "patch/fig22",
                "Privacy profiles under varying shapes of the private region",
                "D.1.6",
                PROFILE_CLAIMS,
                vec![
                    panel("Rectangle 20 × 10", shape(PrivateShape::Rectangle(20, 10))),
                    panel("Rectangle 40 × 5", shape(PrivateShape::Rectangle(40, 5))),
                    panel("Circle of radius 8", shape(PrivateShape::Circle(8.0))),
                    panel(
                        "Two circles of radius 6",
                        shape(PrivateShape::Blob { radius: 6.0, offset: (9, 6) }),
                    ),
                ],
            )
        },
        both("patch/fig23", "Crop and patch size, σ from 1 to 2", plain, LOW),
        both("patch/fig24", "Crop and patch size, σ from 2.5 to 3.5", plain, MIDDLE),
        both("patch/fig25", "Crop and patch size, σ from 4 to 5", plain, HIGH),
        both("patch/fig26", "Crop and patch size in images of 1000 × 2000, σ from 1 to 2", wide, LOW),
        both("patch/fig27", "Crop and patch size in images of 1000 × 2000, σ from 2.5 to 3.5", wide, MIDDLE),
        both("patch/fig28", "Crop and patch size in images of 1000 × 2000, σ from 4 to 5", wide, HIGH),
        padded(
            "patch/fig29",
            "Privacy over the padding, by crop size",
            vec![
                paddings("(a) Crop 400 × 400", 400, 10, HIGH),
                paddings("(b) Crop 450 × 450", 450, 10, HIGH),
                paddings("(c) Crop 500 × 500", 500, 10, HIGH),
            ],
        ),
        padded(
            "patch/fig30",
            "Privacy over the padding, by patch size",
            vec![
                paddings("(a) Patch 10 × 10", 500, 10, HIGH),
                paddings("(b) Patch 20 × 20", 500, 20, HIGH),
                paddings("(c) Patch 40 × 40", 500, 40, HIGH),
            ],
        ),
        padded(
            "patch/fig31",
            "Privacy over the padding, by noise",
            vec![
                paddings("(a) σ from 1 to 2", 500, 20, LOW),
                paddings("(b) σ from 2.5 to 3.5", 500, 20, MIDDLE),
                paddings("(c) σ from 4 to 5", 500, 20, HIGH),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::setting::Reading;
    use dapple_plan::Scheme;

    #[test]
    fn every_setting_is_a_plan() {
        let mut ids = Vec::new();
        for figure in all() {
            ids.push(figure.entry.id);
            let settings: Vec<PatchSetting> = match &figure.body {
                Body::Profiles(panels) => panels.iter().map(|panel| panel.setting).collect(),
                Body::Sweeps(sweeps) => sweeps
                    .iter()
                    .flat_map(|sweep| sweep.values.iter().map(|value| sweep.over.apply(sweep.base, *value)))
                    .collect(),
            };
            for setting in settings {
                assert!(
                    setting.plan(Reading::Std, Scheme::Poisson).is_ok(),
                    "{}: {setting:?}",
                    figure.entry.id
                );
            }
        }
        let expected: Vec<String> =
            [2, 3, 4].into_iter().chain(17..=31).map(|number| format!("patch/fig{number}")).collect();
        assert_eq!(ids, expected);
    }
}
