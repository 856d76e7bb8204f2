//! `dapple audit`: a measured lower bound beside the certified upper one.

use clap::{Args, ValueEnum};
use dapple_audit::{Attack, Audit, Options, Pattern, RefutedCurve, audit};
use dapple_plan::number;

use crate::args::Common;
use crate::failure::Failure;
use crate::machine::MachineFlags;
use crate::progress::bar;
use crate::{load, output};

/// Attacks the training of a plan to measure a lower bound on epsilon, beside the certified upper bound
#[derive(Debug, Args)]
#[command(
    after_help = "The plan's data is only counted: an audit trains on records and a model of its own, the worst that the
certificate allows. A measured epsilon above the certified one ends with exit code 1, unless the attacker
was told more than any run tells.

Examples:
  dapple audit --batch 100 --records 1000 --steps 40 --noise-multiplier 0.8 --delta 1e-5
  dapple audit plan.toml --canaries 500 --confidence 0.99"
)]
pub(crate) struct Arguments {
    /// Records for each of which a coin is tossed and guessed; more allow a larger bound [default: 2000, or all records if fewer]
    #[arg(long, value_name = "N")]
    canaries: Option<usize>,
    /// How sure the measured epsilon is
    #[arg(long, value_name = "C", default_value_t = 0.95)]
    confidence: f64,
    /// What the canaries show: one colour, or huge stripes whose views cancel, which attack the arithmetic of clipping
    #[arg(long, value_enum, default_value_t = PatternName::Plain)]
    pattern: PatternName,
    /// Tells the attacker which submodel each record updates, or which nodes its dropout keeps: what the certificate counts on being hidden
    #[arg(long)]
    tell_submodels: bool,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PatternName {
    Plain,
    Cancelling,
}

impl From<PatternName> for Pattern {
    fn from(shown: PatternName) -> Self {
        match shown {
            PatternName::Plain => Self::Plain,
            PatternName::Cancelling => Self::Cancelling,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut request = load::training(&arguments.common)?;
    request.spec.performance = request.spec.performance.merge(&arguments.machine.performance());
    let &Arguments { canaries, confidence, pattern, tell_submodels: tells_submodels, .. } = arguments;
    let options = Options { canaries, confidence, pattern: pattern.into(), tells_submodels };
    let template = "audit {wide_bar:.cyan/dim} {pos}/{len}  {eta} left";
    let bar = bar(0, arguments.common.output.quiet, template);
    let found = audit(&request, &options, &mut |step, steps| {
        bar.set_length(steps);
        bar.set_position(step);
    });
    bar.finish_and_clear();
    let audit = found?;
    if arguments.common.output.json {
        output::print_json(&audit)?;
    } else {
        output::print(&text(&audit))?;
    }
    if audit.contradicts() && !tells_submodels {
        let message = "the training gives away more than its certificate allows";
        return Err(Failure::run(message).with_hint(
            "audit again; if it stays so, do not release models trained by this plan, and report it",
        ));
    }
    Ok(())
}

fn text(audit: &Audit) -> String {
    let attack = match &audit.attack {
        Attack::Guesses(guesses) => {
            format!("{} of {} guesses right", guesses.right, guesses.guessed)
        }
        Attack::Rates(rates) => format!(
            "seen in {} of {} canaries that have it, and in {} of {} that do not",
            rates.meant_seen, rates.meant, rates.other_seen, rates.other
        ),
    };
    let mut lines = vec![
        (
            "epsilon",
            format!(
                ">= {}  (measured, {} sure)",
                number::down(audit.epsilon_lower_bound, 4),
                number::exact(audit.confidence)
            ),
        ),
        ("", format!("<= {}  (certified)", number::up(audit.epsilon_certified, 4))),
        ("delta", number::exact(audit.delta)),
        ("relation", audit.relation.to_owned()),
        ("attack", attack),
        ("canaries", audit.canaries.to_string()),
        ("steps", audit.steps.to_string()),
        ("machine", audit.machine.clone()),
    ];
    if let Some(RefutedCurve { noise_multiplier, epsilon }) = audit.refuted_curve {
        let lines_of_curve = [
            format!(
                "refutes noise multipliers from {} on, whose epsilon is {}",
                number::up(noise_multiplier, 4),
                number::up(epsilon, 4)
            ),
            format!("{} is certified", number::brief(audit.noise_multiplier)),
        ];
        lines.extend(["whole curve", ""].into_iter().zip(lines_of_curve));
    }
    lines.extend(audit.assumptions.iter().map(|assumption| ("assumes", assumption.clone())));
    lines.push(("plan hash", audit.plan_hash.clone()));
    lines.iter().map(|(name, value)| output::wrapped(name, value)).collect()
}
