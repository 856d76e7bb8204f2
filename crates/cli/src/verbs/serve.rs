//! `dapple serve`: a page in the browser over one plan and its runs.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use dapple_plan::PlanSpec;
use dapple_serve::{Explorer, RunDesk, RunSettings, ServerAddress};

use crate::args::Common;
use crate::budget::BudgetFlags;
use crate::failure::Failure;
use crate::load::{self, PricingRequest};
use crate::output;

/// What the page begins with where no plan is given: crops of street scenes.
const FIRST: &str = include_str!("first-plan.toml");
/// How long a file that leads a browser to the page lies there.
const LEADING: Duration = Duration::from_secs(30);

/// Opens a page for the browser in which a plan is priced while its numbers are dragged, and its runs are started and watched
#[derive(Debug, Args)]
#[command(
    after_help = "PLAN may be a run, or a folder of runs. The page is at an address of this machine alone, which holds a secret; it asks nobody else.
Interrupt to end it: runs that it started stop in order, too.

Examples:
  dapple serve plan.toml
  dapple serve runs"
)]
pub(crate) struct Arguments {
    /// The port of 127.0.0.1 that serves the page [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Leaves it to you to open the page; otherwise a browser opens it, if this is a terminal
    #[arg(long)]
    no_open: bool,
    /// The folder of runs [default: the one that was given, or runs]
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let given = ServeTarget::of(common.plan())?;
    let nothing = given.plan.is_none() && common.set.is_empty() && common.flags.0.is_empty();
    let (PricingRequest { spec, masks }, trains) = match nothing {
        true => (PricingRequest { spec: PlanSpec::from_toml(FIRST)?, masks: Vec::new() }, None),
        false => {
            let priced = PricingRequest::load_from(common, given.plan.as_deref())?;
            let base = load::training_from(common, given.plan.as_deref())?.base;
            let trains = trainable(&priced.spec, &base);
            (priced, trains)
        }
    };
    let folder = arguments.runs.clone().or(given.folder).unwrap_or_else(|| PathBuf::from("runs"));
    let program = std::env::current_exe()
        .map_err(|error| Failure::run(format!("this program does not find itself: {error}")))?;
    let desk = RunDesk::new(RunSettings {
        program,
        folder: absolute(&folder),
        only: given.only,
        plan: trains,
        name: given.name,
        arguments: arguments.budget.arguments(),
    });
    let mut told = Ok(());
    dapple_serve::serve(Explorer::new(spec, masks), desk, arguments.port, |address| {
        told = match common.output.json {
            true => output::print_json(&serde_json::json!({ "url": address.url, "port": address.port })),
            false => output::print(&format!("{}\n", address.url)),
        };
        if !arguments.no_open && !common.output.json && std::io::stdout().is_terminal() {
            lead_browser(address);
        }
    })?;
    told
}

/// What the argument of the verb is.
struct ServeTarget {
    /// The file, or the run, that holds the plan.
    plan: Option<PathBuf>,
    /// The folder that holds runs.
    folder: Option<PathBuf>,
    /// The one run that was given.
    only: Option<String>,
    /// What new runs are called.
    name: String,
}

impl ServeTarget {
    fn of(path: Option<&Path>) -> Result<Self, Failure> {
        let is_run = |path: &Path| path.join("ledger.jsonl").is_file();
        let stem = |path: &Path| path.file_stem().map(|name| name.to_string_lossy().into_owned());
        let Some(path) = path else {
            return Ok(Self { plan: None, folder: None, only: None, name: "run".to_owned() });
        };
        if !path.is_dir() {
            let name = stem(path).unwrap_or_else(|| "run".to_owned());
            return Ok(Self { plan: Some(path.to_owned()), folder: None, only: None, name });
        }
        let path = absolute(path);
        if is_run(&path) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let folder = path.parent().map(Path::to_owned);
            let called = name.clone().unwrap_or_else(|| "run".to_owned());
            return Ok(Self { plan: Some(path), folder, only: name, name: called });
        }
        let failed = |error| {
            Failure::request(format!("{}: {error}", path.display()), "give a plan, a run or a folder of runs")
        };
        let mut runs: Vec<PathBuf> = fs::read_dir(&path)
            .map_err(failed)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_run(path))
            .collect();
        runs.sort();
        let plan = runs.into_iter().next();
        let name = plan.as_deref().and_then(stem).unwrap_or_else(|| "run".to_owned());
        Ok(Self { plan, folder: Some(path), only: None, name })
    }
}

/// A path from the root.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The plan with absolute paths, if it says what is trained.
fn trainable(spec: &PlanSpec, base: &Path) -> Option<PlanSpec> {
    let trains = (spec.data.format.is_some() || spec.data.train.is_some()) && spec.model.name.is_some();
    trains.then(|| {
        let mut spec = spec.clone();
        spec.each_file(|_, path| *path = absolute(&base.join(&*path)).display().to_string());
        spec
    })
}

/// Opens the page in a browser, where the system knows one. The secret is in a file that the owner alone can read, because everybody on the
/// machine may see the arguments of a process. What fails here leaves the printed address.
fn lead_browser(address: &ServerAddress) {
    let name = format!("dapple-{}-{}.html", std::process::id(), address.port);
    let path = std::env::temp_dir().join(name);
    let mut options = fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let page = format!("<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0;url={}\">", address.url);
    let written = options.open(&path).and_then(|mut file| file.write_all(page.as_bytes()));
    if written.is_err() {
        return;
    }
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let quiet = Stdio::null;
    // The browser may live longer than this program.
    let _ = Command::new(opener).arg(&path).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    std::thread::spawn(move || {
        std::thread::sleep(LEADING);
        let _ = fs::remove_file(path);
    });
}
