//! Words that shells complete where any text may stand, because the verb checks it and tells what was meant.

use std::ffi::OsStr;
use std::sync::LazyLock;

use clap::builder::{PathBufValueParser, PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use dapple_plan::spec::keys::{self, KEYS, Key};

/// Takes what another parser takes. Shells are told how it may begin.
#[derive(Debug, Clone)]
pub(crate) struct ShellWords<P> {
    parser: P,
    /// Words in a static, because clap borrows them forever.
    words: &'static LazyLock<Vec<String>>,
}

/// Every key with its words where it has some, as `--set` takes them.
static SETTINGS: LazyLock<Vec<String>> = LazyLock::new(|| settings(""));
/// The same of the section `model`.
static MODEL_SETTINGS: LazyLock<Vec<String>> = LazyLock::new(|| settings("model."));
/// Flags and keys that a sweep takes values of.
static AXES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let flags = KEYS.iter().filter_map(|key| key.flag).map(str::to_owned);
    flags.chain(KEYS.iter().map(|key| key.path.to_owned())).map(|name| format!("{name}=")).collect()
});
static FIGURES: LazyLock<Vec<String>> =
    LazyLock::new(|| dapple_reproduce::registry().iter().map(|one| one.listed().id.to_owned()).collect());
static MODELS: LazyLock<Vec<String>> = LazyLock::new(|| {
    keys::find("model.name").map_or(&[][..], |key| key.choices).iter().map(|&name| name.to_owned()).collect()
});

fn settings(section: &str) -> Vec<String> {
    let of = |key: &Key| match key.choices {
        [] => vec![format!("{}=", key.path)],
        words => words.iter().map(|word| format!("{}={word}", key.path)).collect(),
    };
    KEYS.iter().filter(|key| key.path.starts_with(section)).flat_map(of).collect()
}

impl ShellWords<StringValueParser> {
    fn text(words: &'static LazyLock<Vec<String>>) -> Self {
        Self { parser: StringValueParser::new(), words }
    }

    /// A key of the plan with its value.
    pub(crate) fn settings() -> Self {
        Self::text(&SETTINGS)
    }

    /// A key of the section `model` with its value.
    pub(crate) fn model_settings() -> Self {
        Self::text(&MODEL_SETTINGS)
    }

    /// A key, or the name of a flag, with its values.
    pub(crate) fn axes() -> Self {
        Self::text(&AXES)
    }

    /// The name of a figure or table.
    pub(crate) fn figures() -> Self {
        Self::text(&FIGURES)
    }

    /// The name of a model.
    pub(crate) fn models() -> Self {
        Self::text(&MODELS)
    }
}

impl ShellWords<PathBufValueParser> {
    /// A folder, or the name of a model.
    pub(crate) fn folders_or_models() -> Self {
        Self { parser: PathBufValueParser::new(), words: &MODELS }
    }
}

impl<P: TypedValueParser> TypedValueParser for ShellWords<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(|text| PossibleValue::new(text.as_str()))))
    }
}
