//! Shows the progress of a run: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use dapple_plan::number;
use dapple_plan::spec::{Performance, ProgressKind};
use dapple_reproduce::Watch;
use dapple_train::{Event, Observer, Score, StepReport};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{interrupt, output};

/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Epsilon so far is computed again only after this many times the time that it took, so that it slows training little.
const EPSILON_PATIENCE: u32 = 50;

/// Progress of several runs or questions on a terminal: a bar for each run, or one bar for all questions of a figure.
#[derive(Debug)]
pub(crate) struct Screen {
    quiet: bool,
    runs: MultiProgress,
    questions: OnceLock<ProgressBar>,
}

impl Screen {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, runs: MultiProgress::new(), questions: OnceLock::new() }
    }
}

impl Watch for Screen {
    fn begin(&self, questions: usize) {
        self.questions.get_or_init(|| bar(questions, self.quiet, "{bar:40} {pos}/{len} {eta}"));
    }

    fn answered(&self) {
        self.questions.get().inspect(|bar| bar.inc(1));
    }

    fn end(&self) {
        self.questions.get().inspect(|bar| bar.finish_and_clear());
    }

    fn run(&self, name: &str) -> Box<dyn Observer + '_> {
        Box::new(Progress::among(&self.runs, name, self.quiet))
    }
}

/// A progress bar of this length in the form of a template. It is drawn on stderr, and only if that is a terminal.
pub(crate) fn bar(length: usize, quiet: bool, template: &str) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(length as u64), target);
    // Templates are constants and valid. If one were not, the bar would be plain.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Shows a run, and ends it in order when it is interrupted.
#[derive(Debug)]
pub(crate) struct Progress {
    quiet: bool,
    /// Whether a bar may be drawn.
    draws: bool,
    name: String,
    /// The bars of all runs that train side by side.
    bars: MultiProgress,
    bar: Option<ProgressBar>,
    /// Steps taken before this process took the run up.
    before: u64,
    line_due: Instant,
    /// How good the model was at its last evaluation, in words.
    score: String,
    epsilon: String,
    epsilon_due: Instant,
}

impl Progress {
    /// The progress of one run, shown as its plan says. The name stands before its lines.
    pub(crate) fn new(name: impl Into<String>, quiet: bool, performance: &Performance) -> Self {
        let kind = performance.progress.unwrap_or_default();
        let quiet = quiet || kind == ProgressKind::Never;
        let mut progress = Self::among(&MultiProgress::new(), name, quiet);
        progress.draws = kind == ProgressKind::Auto;
        progress
    }

    /// The progress of a run beside the bars of others.
    fn among(bars: &MultiProgress, name: impl Into<String>, quiet: bool) -> Self {
        interrupt::ask_first();
        let now = Instant::now();
        Self {
            quiet,
            draws: true,
            name: name.into(),
            bars: bars.clone(),
            bar: None,
            before: 0,
            line_due: now,
            score: String::new(),
            epsilon: String::new(),
            epsilon_due: now,
        }
    }

    fn begin(&mut self, steps: u64, after: u64, trainable: usize, epsilon: Option<f64>, machine: &str) {
        self.before = after;
        let promise = epsilon.map_or("without privacy".to_owned(), |epsilon| {
            format!("epsilon {} at the end", number::up(epsilon, 4))
        });
        let from = if after == 0 { String::new() } else { format!(" after {after}") };
        self.say(&format!(
            "{}: {steps} steps{from}, {trainable} parameters on {machine}, {promise}",
            self.name
        ));
        if self.draws && !self.quiet && std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(steps).with_position(after).with_prefix(self.name.clone());
            let bar = self.bars.add(bar);
            // The template is a constant and valid. If it were not, the bar would be plain.
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} {wide_bar:.cyan/dim} {pos}/{len}  {msg}  {eta} left")
            {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
    }

    fn step(&mut self, report: &StepReport<'_>) {
        let now = Instant::now();
        let last = report.step == report.steps;
        if self.quiet || (self.bar.is_none() && now < self.line_due && !last) {
            return;
        }
        if now >= self.epsilon_due || last {
            if let Ok(Some(epsilon)) = report.epsilon() {
                self.epsilon = format!("  epsilon {}", number::up(epsilon, 4));
            }
            self.epsilon_due = now + (now.elapsed() * EPSILON_PATIENCE).max(Duration::from_secs(1));
        }
        let loss = report.loss.map_or("-".to_owned(), |loss| format!("{loss:.3}"));
        let pace = (report.step - self.before) as f64 / report.seconds.max(1e-9);
        let message = format!("loss {loss}{}{}  {pace:.1} steps/s", self.score, self.epsilon);
        match &self.bar {
            Some(bar) => {
                bar.set_position(report.step);
                bar.set_message(message);
            }
            None => {
                self.say(&format!("{}: step {}/{}  {message}", self.name, report.step, report.steps));
                self.line_due = now + LINE_EVERY;
            }
        }
    }

    /// Prints a line without breaking the bars, of which other runs may have some where this one has none yet.
    fn say(&self, text: &str) {
        self.bars.suspend(|| output::say(self.quiet, text));
    }
}

impl Observer for Progress {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Begins { steps, after, trainable, epsilon, machine } => {
                self.begin(*steps, *after, *trainable, *epsilon, machine);
            }
            Event::Step(report) => self.step(report),
            Event::Evaluated { step, evaluation } => {
                let Score { measure, value } = evaluation.score();
                let score = format!("{} {value:.4}", measure.words());
                self.say(&format!("{}: {score} after step {step}", self.name));
                self.score = format!("  {score}");
            }
            Event::Warning(text) => self.say(&format!("warning: {text}")),
            _ => {}
        }
        if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
