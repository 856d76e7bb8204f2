//! Everything that is known about a key of a plan.

use super::phase::PHASE_KEYS;
use super::{Bands, Delta, DeviceChoice, Interval, PartitionShare, Pixels, SizeRange};

/// A key of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Dotted path in the file.
    pub path: &'static str,
    /// Name of the flag, without dashes.
    pub flag: Option<&'static str>,
    /// The placeholder for the value behind the flag.
    pub value: &'static str,
    /// What kind of value the key takes.
    pub kind: Kind,
    /// The words that it may take; empty if it does not take words.
    pub choices: &'static [&'static str],
    /// What the key is, to be read after "it is".
    pub meaning: &'static str,
    /// An example of a value, as it is written behind the flag.
    pub example: &'static str,
    /// What holds if the key is not given.
    pub default: Option<&'static str>,
    /// Keys that exclude this one. A layer that gives this key hides them in the layers below.
    pub instead_of: &'static [&'static str],
}

/// The keys of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySection {
    /// Its name in the file.
    pub name: &'static str,
    /// What it is about, as part of a sentence.
    pub about: &'static str,
    /// Its keys, in order.
    pub keys: &'static [Key],
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One of its words.
    Word,
    /// Any text.
    Text,
    /// The name of a file or folder.
    File,
    /// Yes or no.
    Switch,
    /// A whole number.
    Whole,
    /// A number.
    Real,
    /// A number, or `1/n`.
    Delta,
    /// A whole number, or `auto`.
    Bands,
    /// Width and height in pixels.
    Size,
    /// Two numbers, the lower first.
    Range,
    /// Two sizes, the smaller first.
    Sizes,
    /// The name of a device.
    Device,
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Wholes,
    /// A list of numbers.
    Reals,
    /// A list of `[submodels, probability]`.
    Shares,
}

impl Kind {
    /// The kind in words, to be read after "it takes".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Word => "a word",
            Self::Text => "text",
            Self::File => "a path",
            Self::Switch => "true or false",
            Self::Whole => "a whole number",
            Self::Real => "a number",
            Self::Delta => "a number or \"1/n\"",
            Self::Bands => "a whole number or \"auto\"",
            Self::Size => "[width, height] or \"WIDTHxHEIGHT\"",
            Self::Range => "[low, high] or \"LOW:HIGH\"",
            Self::Sizes => "\"WIDTHxHEIGHT:WIDTHxHEIGHT\"",
            Self::Device => "a device",
            Self::Texts => "a list of texts",
            Self::Wholes => "a list of whole numbers",
            Self::Reals => "a list of numbers",
            Self::Shares => "a list of [submodels, probability]",
        }
    }

    /// Whether a value from a flag or a setting is taken as it is written, whatever it looks like.
    pub(super) fn is_verbatim(self) -> bool {
        matches!(self, Self::Text | Self::File | Self::Device)
    }
}

impl Key {
    /// A key that can be given in a file and by `--set`.
    pub(super) const fn new<T: Typed>(
        path: &'static str,
        meaning: &'static str,
        example: &'static str,
    ) -> Self {
        Self {
            path,
            flag: None,
            value: "VALUE",
            kind: T::KIND,
            choices: T::WORDS,
            meaning,
            example,
            default: None,
            instead_of: &[],
        }
    }

    /// Gives the key a flag.
    pub(super) const fn flag(self, flag: &'static str, value: &'static str) -> Self {
        Self { flag: Some(flag), value, ..self }
    }

    /// Restricts the key to these texts.
    pub(super) const fn words(self, choices: &'static [&'static str]) -> Self {
        Self { choices, ..self }
    }

    /// Says what holds if the key is not given.
    pub(super) const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Says that the text names a file or folder.
    pub(super) const fn file(self) -> Self {
        Self { kind: Kind::File, ..self }
    }

    /// Names the keys that it stands in place of.
    pub(super) const fn instead_of(self, instead_of: &'static [&'static str]) -> Self {
        Self { instead_of, ..self }
    }

    /// Whether a phase of a schedule may change the key.
    #[must_use]
    pub fn in_phases(&self) -> bool {
        PHASE_KEYS.contains(&self.path)
    }

    /// The section of the key.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(section, _)| section)
    }

    /// Its name within the section.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }

    /// The key with its example, as a line of a plan.
    #[must_use]
    pub fn toml_example(&self) -> String {
        let (name, value) = (self.name(), self.example);
        let bare = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok() || value.starts_with('[');
        if bare { format!("`{name} = {value}`") } else { format!("`{name} = \"{value}\"`") }
    }
}

/// A Rust type into which values of a plan are read.
pub(crate) trait Typed {
    /// The kind of values of this type.
    const KIND: Kind;
    /// The words that this type takes.
    const WORDS: &'static [&'static str] = &[];

    /// The value, if it is text.
    fn text(&mut self) -> Option<&mut String> {
        None
    }
}

macro_rules! typed {
    ($($type:ty => $kind:ident),* $(,)?) => {
        $(impl Typed for $type {
            const KIND: Kind = Kind::$kind;
        })*
    };
}

impl Typed for String {
    const KIND: Kind = Kind::Text;

    fn text(&mut self) -> Option<&mut String> {
        Some(self)
    }
}

typed! {
    bool => Switch,
    u32 => Whole,
    u64 => Whole,
    f64 => Real,
    Delta => Delta,
    Bands => Bands,
    Pixels => Size,
    Interval => Range,
    SizeRange => Sizes,
    DeviceChoice => Device,
    Vec<String> => Texts,
    Vec<u32> => Wholes,
    Vec<f64> => Reals,
    [f64; 2] => Reals,
    Vec<PartitionShare> => Shares,
}
