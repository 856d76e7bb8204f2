//! Runs on several ranks under `mpirun`: the same model on any number of them, and an end to every wait.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use common::{npy, wait_until};
use serde_json::Value;

/// Whether there is a launcher; a line says so if there is none.
fn launches() -> bool {
    let found = Command::new("mpirun").arg("--version").stdin(Stdio::null()).output().is_ok();
    if !found {
        println!("SKIPPED: no mpirun is installed (Debian: apt install openmpi-bin)");
    }
    found
}

/// `mpirun` in a folder, with more ranks than there may be cores.
fn mpirun(folder: &Path) -> Command {
    let mut command = Command::new("mpirun");
    command
        .arg("--oversubscribe")
        .current_dir(folder)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

fn on(ranks: usize, folder: &Path, arguments: &str) -> Command {
    let mut command = mpirun(folder);
    command.args(["-n", &ranks.to_string(), env!("CARGO_BIN_EXE_dapple")]).args(arguments.split_whitespace());
    command
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes data of two classes and a plan. Its patience is that of a test, and long enough for ranks of a machine that has much else to do.
fn prepare(folder: &Path, steps: u64, rest: &str) {
    const RECORDS: usize = 100;
    let pixels: Vec<u8> = (0..RECORDS * 256)
        .map(|i| (40 + 150 * (i / 256 % 2) + (i.wrapping_mul(2_654_435_761) >> 16) % 32) as u8)
        .collect();
    let labels: Vec<u8> = (0..RECORDS).map(|i| (i % 2) as u8).collect();
    std::fs::write(folder.join("images.npy"), npy("|u1", &format!("{RECORDS}, 16, 16"), &pixels)).unwrap();
    std::fs::write(folder.join("labels.npy"), npy("|u1", &format!("{RECORDS},"), &labels)).unwrap();
    let plan = format!(
        "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 12\nsteps = {steps}\n\
         [data]\nformat = 'npy'\ntrain = 'images.npy'\ntrain_labels = 'labels.npy'\nvalidation = 0.2\n\
         [model]\nname = 'small-cnn'\n[optimiser]\nlearning_rate = 0.1\n[performance]\nthreads = 1\npatience = 8\n{rest}"
    );
    std::fs::write(folder.join("plan.toml"), plan).unwrap();
}

fn model(run: &Path) -> Vec<u8> {
    std::fs::read(run.join("model.safetensors")).unwrap()
}

/// Steps that the ledger counts, by the program's own check of the whole folder.
fn verified(folder: &Path) -> u64 {
    let output = Command::new(env!("CARGO_BIN_EXE_dapple"))
        .args(["verify", "run", "--json"])
        .current_dir(folder)
        .output();
    let answer: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(answer["valid"], true, "{answer}");
    answer["steps"].as_u64().unwrap()
}

/// Steps that were taken: each leaves a line when it was.
fn taken(folder: &Path) -> u64 {
    let text = std::fs::read_to_string(folder.join("run/private/diagnostics.jsonl")).unwrap_or_default();
    let step = |line: &str| serde_json::from_str::<Value>(line).ok()?["step"].as_u64();
    text.lines().filter_map(step).max().unwrap_or(0)
}

#[test]
fn the_model_is_the_same_on_any_number_of_ranks() {
    if !launches() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), 12, "[train]\nseed = 5\nevaluate_every = 4\n");
    let alone = Command::new(env!("CARGO_BIN_EXE_dapple"))
        .args(["train", "plan.toml", "--out", "run1", "--device", "cpu", "--quiet"])
        .current_dir(folder.path())
        .status();
    assert!(alone.unwrap().success());
    for ranks in [1, 2, 4] {
        let name = format!("on{ranks}");
        let output = on(ranks, folder.path(), &format!("train plan.toml --out {name} --device cpu --json"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", told(&output));
        // One rank speaks for all.
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["status"], "finished");
        let expected = if ranks == 1 { Value::Null } else { ranks.into() };
        assert_eq!(answer["machines"][0]["ranks"], expected);
        assert_eq!(model(&folder.path().join(name)), model(&folder.path().join("run1")));
        assert_eq!(told(&output).matches("step 1/12").count(), 1, "{}", told(&output));
    }
}

/// The processes of the program that a launcher has started, in the order in which it started them.
fn ranks_of(launcher: &Child) -> Vec<u32> {
    let parent = launcher.id().to_string();
    let children = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        (name == "dapple" && rest.split_whitespace().nth(1)? == parent).then_some(id)
    });
    let mut children: Vec<u32> = children.collect();
    children.sort_unstable();
    children
}

/// Moments at which to strike, in steps taken. Their distribution does not matter.
const MOMENTS: [u64; 4] = [0, 7, 60, 250];

/// Ranks are killed or stopped at several points of a run. Nobody hangs, the ledger counts every step that was taken, and the run goes on with
/// another number of ranks to the model of a run that nothing happened to.
#[test]
fn a_rank_that_dies_or_hangs_ends_all_and_the_run_goes_on() {
    if !launches() || !cfg!(target_os = "linux") {
        return;
    }
    let whole = tempfile::tempdir().unwrap();
    const STEPS: u64 = 600;
    const REST: &str = "[train]\nseed = 5\nevaluate_every = 25\ncheckpoint_every = 10\n";
    prepare(whole.path(), STEPS, REST);
    assert!(
        on(1, whole.path(), "train plan.toml --out run --device cpu --quiet").status().unwrap().success()
    );
    let expected = model(&whole.path().join("run"));
    let mut struck = 0;
    for (moment, signal) in MOMENTS.into_iter().zip(["-KILL", "-STOP"].into_iter().cycle()) {
        for victim in [0, 1] {
            let folder = tempfile::tempdir().unwrap();
            prepare(folder.path(), STEPS, REST);
            let mut command = on(3, folder.path(), "train plan.toml --out run --device cpu --quiet");
            let mut launcher = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            wait_until("all ranks", || ranks_of(&launcher).len() == 3 || launcher_ended(&launcher));
            let ranks = ranks_of(&launcher);
            wait_until("steps", || taken(folder.path()) >= moment || launcher_ended(&launcher));
            if let Some(rank) = ranks.get(victim) {
                struck += usize::from(
                    Command::new("kill").args([signal, &rank.to_string()]).status().unwrap().success(),
                );
            }
            // That this returns at all is the test.
            let success = finished(&mut launcher, &ranks);
            if folder.path().join("run/ledger.jsonl").exists() {
                let spent = verified(folder.path());
                assert!(spent >= taken(folder.path()), "{spent} {}", taken(folder.path()));
                assert!(!success || spent == STEPS);
                let resumed = on(2, folder.path(), "resume run --quiet").output().unwrap();
                assert!(resumed.status.success(), "{}", told(&resumed));
            } else {
                // It was struck before there was a run, and the folder may be used again.
                let again =
                    on(2, folder.path(), "train plan.toml --out run --device cpu --quiet").output().unwrap();
                assert!(again.status.success(), "{}", told(&again));
            }
            assert_eq!(
                model(&folder.path().join("run")),
                expected,
                "{signal} rank {victim} after {moment} steps"
            );
        }
    }
    assert!(struck >= MOMENTS.len(), "most were struck while they ran: {struck}");
}

fn launcher_ended(launcher: &Child) -> bool {
    has_ended(launcher.id())
}

/// Whether a process is gone, or waits for nothing but to be noticed.
fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Waits for the end of all ranks and of their launcher, and returns whether that ended well. A launcher that stays behind when all ranks are gone
/// is ended: on its way out Debian's libpmix may wait for a lock that nobody holds any more.
fn finished(launcher: &mut Child, ranks: &[u32]) -> bool {
    wait_until("all ranks to be gone", || ranks.iter().all(|&rank| has_ended(rank)));
    for _ in 0..1000 {
        if let Some(status) = launcher.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    false
}

/// Each rank has a folder of its own, to which the same plan leads: what a rank has otherwise than the first is named, before anything is written.
#[test]
fn ranks_that_do_not_have_the_same_are_named() {
    if !launches() || !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let prepare_both = || {
        for place in [&first, &second] {
            std::fs::create_dir_all(place).unwrap();
            prepare(place, 4, "");
            let plan = std::fs::read_to_string(place.join("plan.toml")).unwrap();
            // Which records are split off would follow from their content.
            let plan =
                plan.replace("validation = 0.2\n", "").replace("'images.npy'", "'/proc/self/cwd/images.npy'");
            std::fs::write(
                place.join("plan.toml"),
                plan.replace("'labels.npy'", "'/proc/self/cwd/labels.npy'"),
            )
            .unwrap();
        }
    };
    let both = |arguments: &str| {
        let mut command = mpirun(folder.path());
        for (number, place) in [&first, &second].into_iter().enumerate() {
            command.args(if number == 0 { &[][..] } else { &[":"] }).args(["-n", "1", "-wdir"]).arg(place);
            command.arg(env!("CARGO_BIN_EXE_dapple")).args(arguments.split_whitespace());
        }
        command.output().unwrap()
    };
    let refused = |what: &str| {
        let output = both("train plan.toml --out run --device cpu --quiet");
        let words = told(&output);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert_eq!(words.matches("error: ").count(), 1, "{words}");
        assert!(words.contains(&format!("error: {what}")) && words.contains("hint: "), "{words}");
        assert!(!first.join("run").exists() && !second.join("run").exists());
    };
    prepare_both();
    std::fs::write(
        second.join("labels.npy"),
        std::fs::read(second.join("labels.npy")).unwrap().iter().rev().copied().collect::<Vec<_>>(),
    )
    .unwrap();
    refused("rank 1: /proc/self/cwd/labels.npy");
    prepare_both();
    let mut pixels = std::fs::read(second.join("images.npy")).unwrap();
    *pixels.last_mut().unwrap() ^= 1;
    std::fs::write(second.join("images.npy"), pixels).unwrap();
    refused("rank 1: the training data differs from that of rank 0");
    prepare_both();
    prepare(&second, 5, "");
    refused("rank 1: the plan differs from that of rank 0");
    std::fs::remove_file(second.join("plan.toml")).unwrap();
    refused("rank 1: cannot read the plan plan.toml");
    prepare_both();
    std::fs::write(first.join("plan.toml"), "[privacy]\nnonsense = 1\n").unwrap();
    refused("plan.toml:2:");
    prepare_both();
    assert!(both("train plan.toml --out run --device cpu --quiet").status.success());
    assert!(first.join("run/model.safetensors").exists() && !second.join("run").exists(), "one rank writes");
}

/// The first rank alone writes, and its disk fills up between two checkpoints. All end in order, and the run goes on where there is room.
#[test]
fn a_full_disk_ends_all_ranks_in_order() {
    if !launches() || !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), 300, "[train]\nseed = 5\nevaluate_every = 1\ncheckpoint_every = 10\n");
    std::fs::create_dir(folder.path().join("small")).unwrap();
    // The small disk is seen by these processes alone, and goes with them.
    let script = "mount -t tmpfs -o size=200k tmpfs small || exit 77
        mpirun --oversubscribe -n 2 \"$0\" train plan.toml --out small/run --device cpu --quiet; code=$?
        cp -a small/run run; exit $code";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_dapple")])
        .current_dir(folder.path())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output();
    let Some(output) =
        output.ok().filter(|output| output.status.code() != Some(77) && !told(output).starts_with("unshare"))
    else {
        println!("SKIPPED: no disk can be mounted here (root is needed)");
        return;
    };
    let words = told(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.matches("error: ").count() == 1 && words.contains("the disk is full"), "{words}");
    let spent = verified(folder.path());
    assert!(spent >= taken(folder.path()) && spent < 300, "{spent}");
    let resumed = on(3, folder.path(), "resume run --quiet").output().unwrap();
    assert!(resumed.status.success(), "{}", told(&resumed));
    let alone = on(1, folder.path(), "train plan.toml --out alone --device cpu --quiet").output().unwrap();
    assert!(alone.status.success(), "{}", told(&alone));
    assert_eq!(model(&folder.path().join("run")), model(&folder.path().join("alone")));
}

/// Two network namespaces joined by a cable, over TCP: the same model; and an end for all ranks if the cable is unplugged, after which the run
/// goes on on one machine.
#[test]
fn machines_are_joined_by_a_cable() {
    if !launches() || !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), 40, "[train]\nseed = 5\n");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/two-machines.sh");
    let machines = |cut: Option<&str>| {
        Command::new("bash")
            .args([script, env!("CARGO_BIN_EXE_dapple")])
            .arg(folder.path())
            .args(cut)
            .output()
            .unwrap()
    };
    let output = machines(None);
    if output.status.code() == Some(77) {
        println!("SKIPPED: network namespaces cannot be made here (root and iproute2 are needed)");
        return;
    }
    assert!(output.status.success(), "{}", told(&output));
    let alone = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dapple"));
        command.args(arguments.split_whitespace()).current_dir(folder.path()).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    };
    alone("train plan.toml --out alone --device cpu --quiet");
    assert_eq!(model(&folder.path().join("cable")), model(&folder.path().join("alone")));
    for run in ["cable", "alone"] {
        std::fs::remove_dir_all(folder.path().join(run)).unwrap();
    }
    // So many steps take longer than to unplug the cable.
    prepare(folder.path(), 20_000, "[train]\nseed = 5\ncheckpoint_every = 50\n");
    let output = machines(Some("cut"));
    assert!(output.status.success() && told(&output).contains("for the others in vain"), "{}", told(&output));
    std::fs::rename(folder.path().join("cable"), folder.path().join("run")).unwrap();
    assert!(verified(folder.path()) >= taken(folder.path()));
    assert!(taken(folder.path()) < 20_000);
}

/// A launcher without its library, a job step of Slurm that knows nothing of MPI, and devices that ranks do not share.
#[test]
fn what_is_missing_is_named_with_the_way_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), 3, "");
    let dapple = |variables: &[(&str, &str)], arguments: &str| {
        Command::new(env!("CARGO_BIN_EXE_dapple"))
            .args(arguments.split_whitespace())
            .current_dir(folder.path())
            .envs(variables.iter().copied())
            .env("NO_COLOR", "1")
            .output()
            .unwrap()
    };
    let launched = [("OMPI_COMM_WORLD_SIZE", "2"), ("DAPPLE_MPI", "/nowhere/libmpi.so")];
    let output = dapple(&launched, "train plan.toml --out run --device cpu");
    let words = told(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(
        words.contains("no MPI library was found (tried /nowhere/libmpi.so)")
            && words.contains("apt install openmpi-bin"),
        "{words}"
    );
    let output = dapple(&[("DAPPLE_MPI", env!("CARGO_BIN_EXE_dapple")), launched[0]], "resume run");
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(!folder.path().join("run").exists());
    let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("DAPPLE_MPI", "/nowhere/libmpi.so")];
    assert!(dapple(&slurm, "train plan.toml --out run --device cpu --quiet").status.success());
}

/// Every rank would do all of what other verbs do, side by side and into the same files.
#[test]
fn what_ranks_do_not_share_is_refused_once() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), 3, "");
    let dapple = |variables: &[(&str, &str)], arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dapple"));
        command.args(arguments.split_whitespace()).current_dir(folder.path()).envs(variables.iter().copied());
        command.env("NO_COLOR", "1").output().unwrap()
    };
    let left = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    let before = left(folder.path());
    let verbs = [
        "eval run",
        "demo --out demo",
        "sweep-train plan.toml --out sweep",
        "choose plan.toml --over optimiser.learning_rate=0.1,0.2 --out chosen",
        "account plan.toml --statement",
        "reproduce mask/table1 --scale tiny --out table",
    ];
    for verb in verbs {
        let first = dapple(&[("PMI_SIZE", "3"), ("PMI_RANK", "0")], verb);
        let words = told(&first);
        assert_eq!(first.status.code(), Some(2), "{verb}: {words}");
        assert!(words.starts_with("error: 3 processes were started") && words.contains("hint: "), "{words}");
        let other = dapple(&[("PMI_SIZE", "3"), ("PMI_RANK", "2")], verb);
        assert!(other.status.success() && other.stderr.is_empty() && other.stdout.is_empty(), "{verb}");
        assert_eq!(left(folder.path()), before, "{verb}");
    }
    // One process of a launcher does as it is told, and help is always given.
    assert!(dapple(&[("PMI_SIZE", "1"), ("PMI_RANK", "0")], "keys sampling").status.success());
    assert!(dapple(&[("PMI_SIZE", "3"), ("PMI_RANK", "0")], "help eval").status.success());
    if launches() {
        let output = on(3, folder.path(), "sweep-train plan.toml --out sweep").output().unwrap();
        let words = told(&output);
        assert_eq!((output.status.code(), words.matches("error: ").count()), (Some(2), 1), "{words}");
        assert!(output.stdout.is_empty() && left(folder.path()) == before, "{words}");
    }
}
