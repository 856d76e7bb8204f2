//! The plan that `dapple new` writes, with a comment on every choice.

use std::path::Path;

use dapple_plan::spec::{DataFormat, Pixels};
use dapple_train::data::Inspection;

use super::answers::{Protection, Wishes};
use super::layout::PhotoLayout;

/// The shortest side of a crop, and the longest: what small models see something in, and what a processor trains on in good time.
const CROP: (u32, u32) = (16, 128);
/// Crops are multiples of this, because models halve images several times.
const GRAIN: u32 = 8;
/// The side to which whole photographs are brought.
const WHOLE: u32 = 64;
/// A batch takes a share of one in so many records, within these limits.
const SHARE: u64 = 8;
const BATCH: (u64, u64) = (8, 256);
/// The share of the records that is held back where there is no test set.
const HELD_BACK: f64 = 0.2;
const EPOCHS: u64 = 20;

/// What the plan is made from.
pub(super) struct PlanDraft<'a> {
    pub(super) layout: &'a PhotoLayout,
    pub(super) found: &'a Inspection,
    /// The least width and height of the photographs, and the largest.
    pub(super) sizes: Option<(Pixels, Pixels)>,
    pub(super) answers: &'a Wishes,
    pub(super) model: Option<&'a str>,
    pub(super) weights: Option<&'a Path>,
    pub(super) delta: Option<f64>,
    /// The command that made it.
    pub(super) command: &'a str,
}

impl PlanDraft<'_> {
    /// Records to train on, about.
    fn records(&self) -> u64 {
        let all = self.found.records as f64;
        let share = if self.layout.test.is_some() { 1.0 } else { 1.0 - HELD_BACK };
        (all * share) as u64
    }

    fn batch(&self) -> u64 {
        (self.records() / SHARE).clamp(BATCH.0, BATCH.1).min(self.records().max(1))
    }

    /// Well below one in so many records.
    fn delta(&self) -> f64 {
        self.delta.unwrap_or(match self.records() {
            ..=50_000 => 1e-5,
            50_001..=500_000 => 1e-6,
            _ => 1e-8,
        })
    }

    fn is_map(&self) -> bool {
        self.layout.labels_pixels()
    }

    /// The size of a crop: at most a quarter of the shortest side, and so small that at most every second crop along a side sees the patch.
    /// Of `W - c + 1` crops of side `c`, at most `c + r - 1` see a patch of side `r`.
    fn crop(&self, patch: Pixels) -> Pixels {
        let Some((least, _)) = self.sizes else { return Pixels { x: CROP.1, y: CROP.1 } };
        let rare = |whole: u32, patch: u32| (whole + 3).saturating_sub(patch.saturating_mul(2)) / 3;
        let side = (least.x.min(least.y) / 4).min(rare(least.x, patch.x)).min(rare(least.y, patch.y));
        let side = (side / GRAIN * GRAIN).clamp(CROP.0, CROP.1);
        Pixels { x: side.min(least.x), y: side.min(least.y) }
    }

    /// Which class numbers and names say about the records is for the user to judge.
    pub(super) fn text(&self) -> String {
        let sections = [
            self.head(),
            self.privacy(),
            self.region(),
            self.pipeline(),
            self.sampling(),
            self.data(),
            self.model(),
            self.optimiser(),
            self.train(),
            self.performance(),
        ];
        sections.iter().filter(|section| !section.is_empty()).cloned().collect::<Vec<_>>().join("\n")
    }

    fn head(&self) -> String {
        format!(
            "# Made by `{}`. Every key is explained by `dapple keys SECTION`.\n# What stands here is public: whoever sees the plan or the certificate knows it.\n",
            self.command
        )
    }

    fn privacy(&self) -> String {
        let relation = match self.answers.protection {
            Protection::Image => {
                "# Nobody can tell whether a photograph was trained on at all.\nrelation = \"add-remove\"\n"
            }
            Protection::Patch { .. } => {
                "# Nobody can tell what a patch of a photograph shows. The rest of the photograph and its class are not protected.\nrelation = \"patch\"\n"
            }
            Protection::Regions { .. } => {
                "# Nobody can tell what the masked regions show. What lies outside them is not protected.\nrelation = \"masked\"\n"
            }
        };
        format!(
            "[privacy]\n{relation}# Smaller is stronger. The noise follows from it.\nepsilon = {}\n# The probability that the promise fails; well below one in the number of photographs.\ndelta = {:e}\nmax_grad_norm = 1.0\n",
            float(self.answers.epsilon),
            self.delta()
        )
    }

    fn region(&self) -> String {
        match &self.answers.protection {
            Protection::Patch { what, size } => format!(
                "[region]\n# Must cover {what} where it is largest, that is nearest to the camera.\npatch = [{}, {}]\n",
                size.x, size.y
            ),
            Protection::Regions { .. } => {
                "[masked]\n# A model sees the private part with the rest blank, and the public part in batches of its own.\npass = \"blank\"\npublic_gradient = \"decoupled\"\n".to_owned()
            }
            Protection::Image => String::new(),
        }
    }

    fn pipeline(&self) -> String {
        let Protection::Patch { size: patch, .. } = self.answers.protection else { return String::new() };
        let sizes = match self.sizes {
            Some((least, most)) if least == most => {
                format!("# All photographs have this size.\nimage = [{}, {}]\n", least.x, least.y)
            }
            Some((least, most)) => format!(
                "# Photographs of other sizes are refused. The range is taken as public, and the price is that of the smallest size.\nsizes = \"{least}:{most}\"\n"
            ),
            None => String::new(),
        };
        let crop = self.crop(patch);
        format!(
            "[pipeline]\n{sizes}# A step sees one crop of a photograph, which often misses the patch: the smaller, the less noise.\ncrop = [{}, {}]\n",
            crop.x, crop.y
        )
    }

    fn sampling(&self) -> String {
        format!(
            "[sampling]\n# Photographs of a step, drawn by a coin each. Larger batches drown less in the noise.\nbatch = {}\nepochs = {EPOCHS}\n",
            self.batch()
        )
    }

    fn data(&self) -> String {
        let PhotoLayout { format, train, test, classes, ignore } = self.layout;
        let mut text = format!("[data]\nformat = \"{}\"\ntrain = {}\n", format.name(), quoted(train));
        match test {
            Some(test) => text.push_str(&format!("test = {}\n", quoted(test))),
            None => text.push_str(&format!(
                "# Held back to evaluate on. They are not trained on, and still private: what is published of them is not covered.\nvalidation = {}\n",
                float(HELD_BACK)
            )),
        }
        if let Some(classes) = classes {
            text.push_str(&format!(
                "# Counted in the label maps. It is taken as public: state what you would state without looking.\nclasses = {classes}\n"
            ));
        }
        if !ignore.is_empty() {
            text.push_str(&format!("# Numbers in label maps that are no class.\nignore = {ignore:?}\n"));
        }
        if let Protection::Regions { masks } = &self.answers.protection {
            text.push_str(&format!(
                "# A mask for each photograph, of the same name.\nmasks = {}\n",
                quoted(masks)
            ));
        }
        if self.weights.is_some() {
            text.push_str(
                "# The means and deviations that public weights were trained with.\nmean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]\n",
            );
        } else {
            text.push_str("# Fixed numbers, never those of the data.\nmean = [0.5]\nstd = [0.25]\n");
        }
        text.push_str("flip = true\n");
        if !matches!(self.answers.protection, Protection::Patch { .. }) && *format != DataFormat::Cityscapes {
            text.push_str(&format!(
                "# The size at which the model sees photographs, whatever their own.\nsize = [{WHOLE}, {WHOLE}]\n"
            ));
        }
        text
    }

    fn model(&self) -> String {
        let usual = if self.is_map() { "small-fcn" } else { "small-cnn" };
        let name = self.model.unwrap_or(usual);
        let weights = match self.weights {
            Some(path) => format!(
                "# Public weights: private noise then disturbs the last layer alone.\nweights = {}\ntune = \"head\"\nnorm = \"frozen\"\n",
                quoted(path)
            ),
            None => "# Better with public weights of which only the last layers are trained: `weights = \"FILE\"`, `tune = \"head\"`.\n".to_owned(),
        };
        format!("[model]\n# `dapple models` lists all.\nname = \"{name}\"\n{weights}")
    }

    fn optimiser(&self) -> String {
        let (kind, rate) = if self.weights.is_some() { ("adam", "0.01") } else { ("sgd", "0.5") };
        format!(
            "[optimiser]\nkind = \"{kind}\"\n# The first number to vary. Comparing runs costs privacy, too: `dapple choose` does it at a known price.\nlearning_rate = {rate}\nschedule = \"cosine\"\n"
        )
    }

    fn train(&self) -> String {
        match self.answers.protection {
            Protection::Patch { .. } if self.is_map() => {
                "[train]\n# Whole photographs are evaluated window by window, in windows of the crop's size.\nevaluation = \"sliding\"\n".to_owned()
            }
            Protection::Patch { .. } => {
                "[train]\n# A photograph is evaluated by this many crops along each side.\nevaluation_grid = 3\n".to_owned()
            }
            _ => String::new(),
        }
    }

    fn performance(&self) -> String {
        self.answers
            .device
            .as_ref()
            .map_or_else(String::new, |device| format!("[performance]\ndevice = \"{device}\"\n"))
    }
}

/// A path as a TOML string. What JSON quotes, TOML reads.
fn quoted(path: &Path) -> String {
    serde_json::Value::String(path.display().to_string()).to_string()
}

/// A number that reads back as a real one.
fn float(value: f64) -> String {
    format!("{value:?}")
}
