//! The arguments of the command line.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueHint};
use dapple_plan::BracketPrecision;
use dapple_plan::spec::keys::{KEYS, Key, Kind};

use crate::shell_words::ShellWords;
use crate::verbs::{
    account, advise, audit, budget, calibrate, check, choose, completions, data, demo, eval, export,
    inclusion, keys, man, mask, measure, models, new, predict, prepare, profile, report, reproduce, serve,
    sweep, sweep_train, train, verify, weights,
};

/// Differentially private training of vision models that counts every source of randomness.
///
/// Results go to stdout, talk to stderr. Exit codes: 0 done, 1 the run failed, 2 the request was wrong, 130 interrupted.
#[derive(Debug, Parser)]
#[command(
    name = "dapple",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    args_override_self = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    New(new::Arguments),
    Prepare(prepare::Arguments),
    Check(check::Arguments),
    Account(account::Arguments),
    Calibrate(calibrate::Arguments),
    Advise(advise::Arguments),
    Profile(profile::Arguments),
    Sweep(sweep::Arguments),
    Inclusion(inclusion::Arguments),
    Demo(demo::Arguments),
    Train(train::Arguments),
    SweepTrain(sweep_train::Arguments),
    Choose(choose::Arguments),
    Budget(budget::Arguments),
    Resume(train::ResumeArguments),
    Eval(eval::Arguments),
    Predict(predict::Arguments),
    Export(export::Arguments),
    Measure(measure::Arguments),
    Report(report::Arguments),
    Serve(serve::Arguments),
    Verify(verify::Arguments),
    Audit(audit::Arguments),
    Reproduce(reproduce::Arguments),
    Data(data::Arguments),
    Mask(mask::Arguments),
    Keys(keys::Arguments),
    Models(models::Arguments),
    Weights(weights::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// What every verb about a plan takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The plan as a TOML file; flags override it
    #[arg(value_name = "PLAN", conflicts_with = "plan")]
    file: Option<PathBuf>,
    /// The same as PLAN
    #[arg(long, value_name = "FILE.toml")]
    plan: Option<PathBuf>,
    /// Sets any key of the plan, after file and flags; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = ShellWords::settings(), hide_possible_values = true)]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) flags: PlanFlags,
}

impl Common {
    /// The file of the plan, whether it was given by position or by `--plan`.
    pub(crate) fn plan(&self) -> Option<&Path> {
        self.file.as_deref().or(self.plan.as_deref())
    }
}

/// What every verb that answers takes.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How narrow brackets must be.
#[derive(Debug, Args)]
pub(crate) struct Width {
    /// The width of the certified bracket over its upper end
    #[arg(long, value_name = "R", default_value_t = 0.001, value_parser = relative)]
    precision: f64,
}

impl Width {
    pub(crate) fn precision(&self) -> BracketPrecision {
        BracketPrecision { relative: self.precision }
    }
}

fn relative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (1e-5..=0.5).contains(&value) => Ok(value),
        _ => Err("not a number between 1e-5 and 0.5".to_owned()),
    }
}

/// The flags that describe a plan: one for each key that has one, as (dotted key, value).
#[derive(Debug, Clone, Default)]
pub(crate) struct PlanFlags(pub(crate) Vec<(&'static str, String)>);

fn flags() -> impl Iterator<Item = (&'static Key, &'static str)> {
    KEYS.iter().filter_map(|key| key.flag.map(|flag| (key, flag)))
}

impl Args for PlanFlags {
    fn augment_args(command: Command) -> Command {
        flags().fold(command.next_help_heading("Plan"), |command, (key, flag)| {
            let mut help = capitalised(key.meaning);
            if let Some(default) = key.default {
                help.push_str(&format!(" [default: {default}]"));
            }
            let mut argument =
                Arg::new(key.path).long(flag).value_name(key.value).help(help).allow_negative_numbers(true);
            // Let values such as -1e-5 and -inf reach the check of the plan, which says what is wrong with them.
            if key.path.starts_with("privacy.") && key.choices.is_empty() {
                argument = argument.allow_hyphen_values(true);
            }
            if key.kind == Kind::File {
                argument = argument.value_hint(ValueHint::AnyPath);
            }
            if !key.choices.is_empty() {
                argument = argument.value_parser(PossibleValuesParser::new(key.choices));
            }
            command.arg(argument)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PlanFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |(key, _): (&'static Key, _)| {
            matches.get_one::<String>(key.path).map(|value| (key.path, value.clone()))
        };
        Ok(Self(flags().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
