//! The methods that runs are compared by: what their price protects, and how a step draws its records.

use std::fmt;

use clap::ValueEnum;
use dapple_plan::spec::{Masked, MaskedContent, RegionSpec};
use dapple_plan::{PlanSpec, Relation, Scheme};
use dapple_report::paint::method;

/// What the price of a training protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Whole records, one substituted for another.
    Record,
    /// The region that the plan names.
    Patch,
    /// The private part of each record, by its mask.
    Tokens,
}

impl Level {
    /// The name in files and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Patch => "patch",
            Self::Tokens => "tokens",
        }
    }

    /// The same training, priced at this level.
    pub fn of(self, mut spec: PlanSpec) -> PlanSpec {
        spec.privacy.relation = Some(match self {
            Self::Record => Relation::Replace,
            Self::Patch => Relation::Patch,
            Self::Tokens => Relation::Masked,
        });
        if self != Self::Patch {
            spec.region = RegionSpec::default();
        }
        if self != Self::Tokens {
            spec.masked = Masked::default();
            spec.data.masks = None;
        }
        spec
    }
}

/// A neighbouring relation and a way to draw records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// One record substituted for another; batches of fixed size
    Record,
    /// One record substituted for another; Poisson sampling
    RecordPoisson,
    /// One record added or removed; Poisson sampling
    AddRemove,
    /// The content of a region substituted; batches of fixed size
    Patch,
    /// The content of a region substituted; Poisson sampling
    PatchPoisson,
    /// The content of each record's private part substituted, by the plan's masks; Poisson sampling
    Masked,
    /// Each record's private part there or not, by the plan's masks; Poisson sampling
    MaskedRemove,
    /// The same as patch, with the plan's noise on the pixels of each view (pipeline.pixel_noise)
    NoisyPixels,
    /// The same steps without clipping and noise
    NonPrivate,
}

impl Method {
    /// The name in flags, files and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::RecordPoisson => "record-poisson",
            Self::AddRemove => "add-remove",
            Self::Patch => "patch",
            Self::PatchPoisson => "patch-poisson",
            Self::Masked => "masked",
            Self::MaskedRemove => "masked-remove",
            Self::NoisyPixels => "noisy-pixels",
            Self::NonPrivate => "non-private",
        }
    }

    /// All names, as one writes them in a sentence.
    pub fn list() -> String {
        let names: Vec<&str> = Self::value_variants().iter().map(|method| method.name()).collect();
        names.join(", ")
    }

    /// The name in tables and figures.
    pub fn words(self) -> &'static str {
        match self {
            Self::Record => "record level, without replacement",
            Self::RecordPoisson => "record level, Poisson",
            Self::AddRemove => "record level (add or remove), Poisson",
            Self::Patch => "patch level, without replacement",
            Self::PatchPoisson => "patch level, Poisson",
            Self::Masked => "private parts (substituted), Poisson",
            Self::MaskedRemove => "private parts (there or not), Poisson",
            Self::NoisyPixels => "patch level, noisy pixels, without replacement",
            Self::NonPrivate => "without privacy",
        }
    }

    /// The level that is protected; there is none without privacy.
    pub fn level(self) -> Option<Level> {
        match self {
            Self::Record | Self::RecordPoisson | Self::AddRemove => Some(Level::Record),
            Self::Patch | Self::PatchPoisson | Self::NoisyPixels => Some(Level::Patch),
            Self::Masked | Self::MaskedRemove => Some(Level::Tokens),
            Self::NonPrivate => None,
        }
    }

    /// The record-level method that draws records, and lets neighbours differ, as this method for a part of each record does.
    pub fn counterpart(self) -> Option<Self> {
        match self {
            Self::Patch | Self::NoisyPixels => Some(Self::Record),
            Self::PatchPoisson | Self::Masked => Some(Self::RecordPoisson),
            Self::MaskedRemove => Some(Self::AddRemove),
            _ => None,
        }
    }

    /// How records are drawn, in words.
    pub fn drawn(self) -> &'static str {
        match self.scheme() {
            Some(Scheme::WithoutReplacement) => "without replacement",
            Some(Scheme::Poisson) => "Poisson",
            _ => "as the plan says",
        }
    }

    /// How records are drawn; without privacy as the plan says.
    pub fn scheme(self) -> Option<Scheme> {
        match self {
            Self::Record | Self::Patch | Self::NoisyPixels => Some(Scheme::WithoutReplacement),
            Self::RecordPoisson
            | Self::AddRemove
            | Self::PatchPoisson
            | Self::Masked
            | Self::MaskedRemove => Some(Scheme::Poisson),
            Self::NonPrivate => None,
        }
    }

    /// The place in a chart's colours: patch level in blues first, record level in warm ones, as the patch-level paper draws them.
    pub fn color(self) -> usize {
        match self {
            Self::Patch => method::PATCH,
            Self::Record => method::RECORD,
            Self::PatchPoisson => method::PATCH_POISSON,
            Self::RecordPoisson => method::RECORD_POISSON,
            Self::AddRemove => method::ADD_REMOVE,
            Self::NonPrivate => method::NON_PRIVATE,
            Self::NoisyPixels => method::NOISY_PIXELS,
            Self::Masked => method::MASKED,
            Self::MaskedRemove => method::MASKED_REMOVE,
        }
    }

    /// The same training by this method. Batches of fixed size hold as many records as Poisson batches do in expectation. Only one method
    /// keeps the plan's noise on pixels, which costs the others accuracy and gains them nothing.
    pub fn of(self, spec: PlanSpec) -> PlanSpec {
        let mut spec = match self.level() {
            Some(level) => level.of(spec),
            // Whole images are seen, whatever of them the plan has to protect.
            None if spec.privacy.relation == Some(Relation::Masked) => Level::Record.of(spec),
            None => spec,
        };
        match self {
            Self::AddRemove => spec.privacy.relation = Some(Relation::AddRemove),
            Self::Masked => spec.masked.content = Some(MaskedContent::Substitute),
            Self::MaskedRemove => spec.masked.content = Some(MaskedContent::Remove),
            Self::NonPrivate => {
                spec.train.private = Some(false);
                spec.privacy.epsilon = None;
            }
            _ => {}
        }
        if self != Self::NoisyPixels {
            spec.pipeline.pixel_noise = None;
        }
        spec.sampling.scheme = self.scheme().or(spec.sampling.scheme);
        spec
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_plan::{BracketPrecision, Plan};

    #[test]
    fn names_are_those_of_the_flag() {
        for method in Method::value_variants() {
            assert_eq!(method.to_possible_value().unwrap().get_name(), method.name());
        }
    }

    /// The page of a run, which knows a level and a sampling, draws in the colour that comparisons of methods have.
    #[test]
    fn a_method_has_the_colour_of_its_level() {
        use Method::{AddRemove, Masked, Patch, PatchPoisson, Record, RecordPoisson};
        for own in [Record, RecordPoisson, AddRemove, Patch, PatchPoisson, Masked] {
            let spec = own.of(PlanSpec::default());
            let (relation, scheme) = (spec.privacy.relation.unwrap(), spec.sampling.scheme.unwrap());
            assert_eq!(own.color(), method::of_level(relation.name(), scheme.name()), "{own}");
        }
        // No two methods of a comparison look alike.
        let colors: std::collections::BTreeSet<usize> =
            Method::value_variants().iter().map(|method| method.color()).collect();
        assert_eq!(colors.len(), Method::value_variants().len());
    }

    #[test]
    fn methods_order_by_what_they_must_hide() {
        let spec = PlanSpec::from_toml(
            "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[region]\npatch = [10, 10]\n\
             [pipeline]\nimage = [100, 100]\ncrop = [30, 30]\n\
             [sampling]\nbatch = 10\nrecords = 1000\nsteps = 100\n",
        )
        .unwrap();
        let epsilon = |method: Method| {
            let plan = Plan::check(&method.of(spec.clone())).unwrap();
            plan.price(BracketPrecision::default()).unwrap().epsilon.upper
        };
        let [record, record_poisson, add_remove, patch, patch_poisson] =
            [Method::Record, Method::RecordPoisson, Method::AddRemove, Method::Patch, Method::PatchPoisson]
                .map(epsilon);
        // The same noise promises more about a patch, and more where each record has its own coin.
        assert!(patch < record && patch_poisson < record_poisson);
        assert!(patch_poisson < patch && record_poisson < record && add_remove < record_poisson);
        // One content against another is twice as far as one against none, as with whole records, and public batches of their own cost nothing.
        assert_eq!(epsilon(Method::Masked), record_poisson);
        let mut removes = spec.clone();
        removes.masked.content = Some(MaskedContent::Remove);
        assert_eq!(Method::Masked.of(removes).masked.content, Some(MaskedContent::Substitute));
        assert_eq!(epsilon(Method::MaskedRemove), add_remove);
        // Noise on pixels hides a region better, the more of it there is.
        let noisy = |deviation: f64| {
            let mut spec = spec.clone();
            spec.pipeline.pixel_noise = Some(deviation);
            assert_eq!(Method::Patch.of(spec.clone()).pipeline.pixel_noise, None);
            let plan = Plan::check(&Method::NoisyPixels.of(spec)).unwrap();
            plan.price(BracketPrecision::default()).unwrap().epsilon.upper
        };
        assert!(noisy(10.0) < noisy(5.0) && noisy(5.0) < patch);
    }
}
