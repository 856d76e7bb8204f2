//! What can be wrong with a plan, where, and what to do about it.

use dapple_accounting::{AccountingError, limits};
use thiserror::Error;

use crate::number;
use crate::spec::keys;
use crate::training::SettingError;

/// Why a plan was not read, checked or priced. The message is one line, and [`PlanError::hint`] says what to do about it.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The text is not TOML, or a value in it has the wrong type or name.
    #[error("{file}:{line}:{column}: {}{message}", prefix(.key))]
    Toml {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The dotted key, or empty if the text itself is broken.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// A dotted key that no plan has.
    #[error("unknown key `{path}`")]
    UnknownKey {
        /// The key as it was written.
        path: String,
        /// Keys that look like it.
        near: Vec<&'static str>,
    },
    /// A value from a flag, a setting or Python that has the wrong type or name.
    #[error("{}: {message}", keys::place(.key))]
    Value {
        /// The dotted key.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// A mistake in a phase.
    #[error("phase {number}: {source}")]
    Phase {
        /// Which one, from 1.
        number: usize,
        /// What is wrong with it.
        source: Box<PlanError>,
    },
    /// A mistake in a combination of a sweep.
    #[error("at {combination}: {source}")]
    At {
        /// Its keys and values.
        combination: String,
        /// What is wrong with it.
        source: Box<PlanError>,
    },
    /// Values that are not part of the plan, such as the axes of a sweep, and make no sense.
    #[error("{message}")]
    Asked {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// A value that is needed but not given.
    #[error("{} is missing: {why}", keys::place(.key))]
    Missing {
        /// The dotted key.
        key: &'static str,
        /// What it is needed for.
        why: &'static str,
    },
    /// A value that makes no sense by itself or together with the others.
    #[error("{}: {problem}", keys::place(.key))]
    Invalid {
        /// The dotted key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// A key about the data that is missing or makes no sense.
    #[error(transparent)]
    Data(#[from] SettingError),
    /// A part of the spatial pipeline that cannot be priced.
    #[error("{}: {source}", keys::place(.key))]
    Geometry {
        /// The dotted key that is most likely at fault.
        key: &'static str,
        /// What the geometry says.
        source: dapple_geometry::GeometryError,
    },
    /// A combination that no theorem of this program covers.
    #[error("no theorem for {combination} is built in: {reason}")]
    NoTheorem {
        /// The relation and the sampling, or the part of the plan.
        combination: String,
        /// Why nothing built in covers it.
        reason: &'static str,
        /// What to do about it.
        hint: &'static str,
    },
    /// The accountant has no answer.
    #[error("{}{source}", accounting_place(.key))]
    Accounting {
        /// The dotted key, if one is at fault.
        key: Option<&'static str>,
        /// What the accountant says.
        source: AccountingError,
    },
    /// No value of the unknown meets the target.
    #[error("no {unknown} from {low} to {high} keeps epsilon at or below {}", number::exact(*.epsilon))]
    Unreachable {
        /// The flag name of the unknown.
        unknown: &'static str,
        /// The smallest value that was considered.
        low: f64,
        /// The largest value that was considered.
        high: f64,
        /// The target.
        epsilon: f64,
    },
}

impl PlanError {
    /// What to do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Toml { key, message, .. } => return toml_hint(key, message),
            Self::UnknownKey { near, .. } if near.is_empty() => {
                format!("sections are {}", keys::sections().join(", "))
            }
            Self::UnknownKey { near, .. } => format!("did you mean {}?", near.join(" or ")),
            Self::Value { key, message } => {
                return near_choice(key, message).or_else(|| {
                    keys::find(key).map(|key| format!("it is {}, e.g. {}", described(key), key.example))
                });
            }
            Self::Missing { key, .. } => {
                let key = keys::find(key)?;
                let example = key.example;
                match key.flag {
                    Some(flag) => {
                        format!("give --{flag} {example}, or `{}` in the plan: {}", key.path, key.meaning)
                    }
                    None => format!("give `{} = {example}` in the plan: {}", key.path, key.meaning),
                }
            }
            Self::Phase { source, .. } | Self::At { source, .. } => return source.hint(),
            Self::Invalid { hint, .. } | Self::Asked { hint, .. } => hint.clone(),
            Self::Data(source) => source.hint(),
            Self::Geometry { source, .. } => return source.hint(),
            Self::NoTheorem { hint, .. } => (*hint).to_owned(),
            Self::Accounting { source, .. } => source.hint().to_owned(),
            Self::Unreachable { unknown, .. } => match *unknown {
                "noise-multiplier" => {
                    "raise --epsilon or --delta, or lower the steps or the batch".to_owned()
                }
                _ => "raise --epsilon, --delta or --noise-multiplier".to_owned(),
            },
        })
    }

    /// The same error with the name of the file it was read from.
    #[must_use]
    pub fn in_file(self, name: &str) -> Self {
        match self {
            Self::Toml { line, column, key, message, .. } => {
                Self::Toml { file: name.to_owned(), line, column, key, message }
            }
            other => other,
        }
    }

    /// Whether epsilon is merely too large to report, which is an answer for a comparison or a search.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Accounting { source: AccountingError::EpsilonTooLarge { .. }, .. })
    }

    pub(crate) fn too_large(delta: f64) -> Self {
        AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta }.into()
    }

    /// `None` if epsilon is too large to report. Other errors stay errors.
    pub(crate) fn or_none<T>(self) -> Result<Option<T>, Self> {
        if self.is_too_large() { Ok(None) } else { Err(self) }
    }

    pub(crate) fn invalid(key: &'static str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { key, problem: problem.into(), hint: hint.into() }
    }
}

impl From<AccountingError> for PlanError {
    fn from(source: AccountingError) -> Self {
        Self::Accounting { key: None, source }
    }
}

/// What a key is, with the words that it may take.
fn described(key: &keys::Key) -> String {
    if key.choices.is_empty() {
        key.meaning.to_owned()
    } else {
        format!("{} ({})", key.meaning, key.choices.join(", "))
    }
}

fn prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

fn accounting_place(key: &Option<&'static str>) -> String {
    key.map_or_else(String::new, |key| format!("{}: ", keys::place(key)))
}

/// The question whether another word was meant, where a key takes one of some and was given none of them but one that looks like it.
fn near_choice(key: &str, message: &str) -> Option<String> {
    let typed = message.strip_prefix("unknown variant `")?.split('`').next()?;
    let choices = keys::find(key)?.choices.iter().copied();
    keys::meant(&keys::near_words(choices, typed))
}

fn toml_hint(key: &str, message: &str) -> Option<String> {
    if key.starts_with("phases") {
        return Some(
            "phases are written [[phases]] and take epochs or steps, batch, noise_multiplier, crop, views"
                .to_owned(),
        );
    }
    if message.starts_with("unknown field") {
        let near = if key.contains('.') { keys::near(key) } else { Vec::new() };
        return Some(if near.is_empty() {
            format!("sections are {}", keys::sections().join(", "))
        } else {
            format!("did you mean {}?", near.join(" or "))
        });
    }
    if let Some(meant) = near_choice(key, message) {
        return Some(meant);
    }
    match keys::find(key) {
        Some(key) => Some(format!("it is {}, e.g. {}", described(key), key.toml_example())),
        None => Some("a plan is TOML: sections in [brackets], then lines `key = value`".to_owned()),
    }
}
