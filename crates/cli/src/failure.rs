//! Why a verb did not finish, told in one line with a hint and an exit code.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use dapple_audit::AuditError;
use dapple_pages::PageError;
use dapple_plan::PlanError;
use dapple_plan::spec::keys::KEYS;
use dapple_report::ReportError;
use dapple_reproduce::ReproduceError;
use dapple_serve::ServeError;
use dapple_train::data::DataError;
use dapple_train::{BudgetError, StepError, TrainError};

use crate::args::Cli;

/// Why a verb did not finish.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request was wrong: exit 2.
    Request { message: String, hint: String },
    /// The run failed: exit 1.
    Run { message: String, hint: Option<String> },
    /// Help or the version was asked for: exit 0.
    Help(clap::Error),
    /// The answer was no and has been printed to stdout: exit 1.
    Told,
    /// Somebody asked to stop: exit 130, silently.
    Interrupted,
    /// The first of several processes tells what went wrong: exit 0, silently, because launchers end all processes when one fails.
    Followed,
    /// The reader of stdout went away: exit 0, silently.
    BrokenPipe,
}

impl Failure {
    pub(crate) fn request(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Request { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self::Run { message: message.into(), hint: None }
    }

    /// What went wrong, in words, where anything did.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Request { message, .. } | Self::Run { message, .. } => message.clone(),
            Self::Help(_) | Self::Told | Self::Interrupted | Self::Followed | Self::BrokenPipe => {
                "it was asked for something else".to_owned()
            }
        }
    }

    /// The same failure with a hint.
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        match self {
            Self::Run { message, .. } => Self::Run { message, hint: Some(hint.to_owned()) },
            other => other,
        }
    }

    /// Prints what went wrong and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (message, hint, code) = match self {
            Self::Request { message, hint } => (message, Some(hint), 2),
            Self::Run { message, hint } => (message, hint, 1),
            Self::Help(text) => {
                // If this fails, the reader went away and has seen enough.
                let _ = text.print();
                return ExitCode::SUCCESS;
            }
            Self::Told => return ExitCode::FAILURE,
            Self::Interrupted => return ExitCode::from(130),
            Self::BrokenPipe | Self::Followed => return ExitCode::SUCCESS,
        };
        let mut stderr = std::io::stderr().lock();
        let (red, cyan, plain) =
            if coloured() { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
        // If stderr is closed, nobody is left to tell.
        let _ = writeln!(stderr, "{red}error:{plain} {}", one_line(&message));
        if let Some(hint) = hint {
            let _ = writeln!(stderr, "{cyan}hint:{plain} {}", one_line(&hint));
        }
        ExitCode::from(code)
    }
}

/// Colours are used only on a terminal, and only if `NO_COLOR` does not forbid them.
fn coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn one_line(text: &str) -> String {
    harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A text made safe for a terminal, because it may contain names of files: characters that would steer the terminal or turn the direction
/// of writing are spelled out.
pub(crate) fn harmless(text: &str) -> String {
    let steers = |letter: char| {
        letter.is_control() && letter != '\n'
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if steers(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let hint = error.hint().unwrap_or_else(|| "see `dapple help`".to_owned());
        Self::request(error.to_string(), hint)
    }
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Train(error) => error.into(),
            PageError::Plan(error) => error.into(),
            PageError::Data(error) => error.into(),
            PageError::Report(error) => error.into(),
        }
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        let hint = error.hint().unwrap_or_else(|| "see `dapple help train`".to_owned());
        Self::request(error.to_string(), hint)
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        let (message, hint) = (error.to_string(), error.hint());
        match error {
            // These are found before anything is written.
            TrainError::Plan(_)
            | TrainError::Setting { .. }
            | TrainError::Data(_)
            | TrainError::Model(_)
            | TrainError::Private(StepError::Device { .. } | StepError::Data(_))
            | TrainError::Ranks { .. }
            | TrainError::Mpi(_)
            | TrainError::Exists { .. }
            | TrainError::InTheWay { .. }
            | TrainError::NoRun { .. } => {
                Self::request(message, hint.unwrap_or_else(|| "see `dapple help train`".to_owned()))
            }
            // A budget that cannot be trusted is no fault of the request. Everything else that a budget refuses is.
            TrainError::Budget { source: BudgetError::Broken(_) | BudgetError::Entry { .. }, .. } => {
                Self::Run { message, hint }
            }
            TrainError::Budget { .. } => Self::request(message, hint.unwrap_or_default()),
            _ => Self::Run { message, hint },
        }
    }
}

impl From<AuditError> for Failure {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::Train(error) => error.into(),
            other => {
                let hint = other.hint().unwrap_or_else(|| "see `dapple help audit`".to_owned());
                Self::request(other.to_string(), hint)
            }
        }
    }
}

impl From<ReproduceError> for Failure {
    fn from(error: ReproduceError) -> Self {
        match error {
            ReproduceError::Request { message, hint } => Self::Request { message, hint },
            ReproduceError::Failed { message, hint } => Self::Run { message, hint },
            ReproduceError::Interrupted => Self::Interrupted,
            ReproduceError::Plan(error) => error.into(),
            ReproduceError::Train(error) => error.into(),
            ReproduceError::Run { run, source } => match (*source).into() {
                Self::Run { message, hint } => Self::Run { message: format!("{run}: {message}"), hint },
                // A fault of the plan concerns all runs, so no run is named.
                other => other,
            },
            ReproduceError::Report(error) => error.into(),
            other => Self::run(other.to_string()),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let hint = error.hint();
        match error {
            ServeError::Plan(error) => error.into(),
            other => Self::Run { message: other.to_string(), hint },
        }
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        Self::Run { message: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Self::Help(error),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let command = Cli::command();
                let verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
                Self::request(
                    "no verb is given",
                    format!("try `dapple demo`; verbs are {}", verbs.join(", ")),
                )
            }
            _ => {
                let text = error.render().to_string();
                let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
                let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
                // No verb takes a value that looks like a flag.
                let tip = tip.filter(|tip| !tip.starts_with("to pass ")).map(str::to_owned);
                let hint = setting_meant(&error).or(tip).unwrap_or_else(usage);
                Self::request(message, hint)
            }
        }
    }
}

/// What other programs call keys that have no flag here.
const CALLED_ELSEWHERE: [(&str, &str); 2] =
    [("lr", "optimiser.learning_rate"), ("optimizer", "optimiser.kind")];

/// A hint that names the key of a plan, for a flag that does not exist but is called as the key is.
fn setting_meant(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = flag.strip_prefix("--").filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let command = Cli::command();
    let verb = command.find_subcommand(std::env::args().nth(1)?)?;
    verb.get_arguments().find(|argument| argument.get_long() == Some("set"))?;
    let word = name.replace('-', "_");
    let elsewhere = CALLED_ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, path)| *path);
    let named = |path: &&str| match path.split_once('.') {
        Some((section, key)) => key == word || (section == word && key == "name"),
        None => false,
    };
    let keys: Vec<String> = elsewhere
        .into_iter()
        .chain(KEYS.iter().map(|key| key.path).filter(named))
        .map(|path| format!("--set {path}=.."))
        .collect();
    (!keys.is_empty()).then(|| format!("give {}", keys.join(" or ")))
}

/// A hint that names the help of the verb that was given.
fn usage() -> String {
    let verb = std::env::args().nth(1).filter(|word| Cli::command().find_subcommand(word).is_some());
    verb.map_or_else(|| "see `dapple --help`".to_owned(), |verb| format!("see `dapple {verb} --help`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_steer_a_terminal() {
        assert_eq!(one_line("a \u{1b}[2J\tb\nc"), "a \\u{1b}[2J b c");
        assert_eq!(harmless("x\u{202e}gnp\u{9b}1m\u{7f}\r"), "x\\u{202e}gnp\\u{9b}1m\\u{7f}\\u{d}");
        assert_eq!(harmless("für Frühling\n寿司.png"), "für Frühling\n寿司.png");
    }
}
