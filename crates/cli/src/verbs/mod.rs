//! One file for each verb.

pub(crate) mod account;
pub(crate) mod advise;
pub(crate) mod audit;
pub(crate) mod budget;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod choose;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod eval;
mod explain;
pub(crate) mod export;
pub(crate) mod inclusion;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod mask;
pub(crate) mod measure;
pub(crate) mod models;
pub(crate) mod new;
pub(crate) mod predict;
pub(crate) mod prepare;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod serve;
pub(crate) mod sweep;
pub(crate) mod sweep_train;
pub(crate) mod train;
pub(crate) mod verify;
pub(crate) mod weights;

use crate::args::Verb;
use crate::failure::Failure;
use crate::ranks;

/// Runs a verb.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    if !matches!(verb, Verb::Train(_) | Verb::Resume(_)) {
        ranks::refuse_others()?;
    }
    match verb {
        Verb::New(arguments) => new::run(&arguments),
        Verb::Prepare(arguments) => prepare::run(&arguments),
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Account(arguments) => account::run(&arguments),
        Verb::Calibrate(arguments) => calibrate::run(&arguments),
        Verb::Advise(arguments) => advise::run(&arguments),
        Verb::Profile(arguments) => profile::run(&arguments),
        Verb::Sweep(arguments) => sweep::run(&arguments),
        Verb::Inclusion(arguments) => inclusion::run(&arguments),
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::Train(arguments) => train::run(&arguments),
        Verb::SweepTrain(arguments) => sweep_train::run(&arguments),
        Verb::Choose(arguments) => choose::run(&arguments),
        Verb::Budget(arguments) => budget::run(&arguments),
        Verb::Resume(arguments) => train::resume(&arguments),
        Verb::Eval(arguments) => eval::run(&arguments),
        Verb::Predict(arguments) => predict::run(&arguments),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Measure(arguments) => measure::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Verify(arguments) => verify::run(&arguments),
        Verb::Audit(arguments) => audit::run(&arguments),
        Verb::Reproduce(arguments) => reproduce::run(&arguments),
        Verb::Data(arguments) => data::run(&arguments),
        Verb::Mask(arguments) => mask::run(&arguments),
        Verb::Keys(arguments) => keys::run(&arguments),
        Verb::Models(arguments) => models::run(&arguments),
        Verb::Weights(arguments) => weights::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments),
    }
}
