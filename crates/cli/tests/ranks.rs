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

/// A rank without the card that was asked for is named once, before anything is written. Where nobody asked, ranks without cards use their processors.
#[test]
fn ranks_take_cards_alike_or_none() {
    if !launches() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), 2, "[train]\nseed = 5\n");
    for device in ["cuda:99", "cuda:99,98"] {
        let train = format!("train plan.toml --out run --device {device}");
        let output = on(2, folder.path(), &train).output().unwrap();
        let words = told(&output);
        assert_eq!((output.status.code(), words.matches("error: ").count()), (Some(2), 1), "{words}");
        assert!(words.contains("performance.device: rank 0: there is no cuda:99 for it ("), "{words}");
        assert!(words.contains("hint: ") && !folder.path().join("run").exists(), "{words}");
    }
    let output = on(2, folder.path(), "train plan.toml --out run --json").output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
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

/// Pictures of two classes below a folder, and a list of them in three shards of unequal sizes.
fn write_pictures(folder: &Path) -> String {
    for number in 0..60u32 {
        let path = folder.join(format!("photos/{}/{number}.png", number % 2));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let pixel = |x: u32, y: u32| {
            let noise = (number * 977 + y * 31 + x).wrapping_mul(2_654_435_761) >> 27;
            image::Rgb([(40 + 150 * (number % 2) + noise) as u8; 3])
        };
        image::RgbImage::from_fn(16, 16, pixel).save(path).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_dapple"))
        .args(["data", "list", "photos", "--shards", "6", "--out", "dealt.csv"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let list = std::fs::read_to_string(folder.join("dealt.csv")).unwrap();
    let named = |line: &str| match line.rsplit_once(',').unwrap() {
        (record, "0" | "1" | "2" | "3") => format!("{record},large\n"),
        (record, "4") => format!("{record},middle\n"),
        (record, "5") => format!("{record},small\n"),
        (header, _) => format!("{header},shard\n"),
    };
    list.lines().map(named).collect()
}

/// A place where a rank works: the plan, the list, and the pictures of some shards.
fn furnish(place: &Path, pictures: &Path, list: &str, shards: &[&str], steps: u64) {
    let _ = std::fs::remove_dir_all(place.join("photos"));
    std::fs::create_dir_all(place.join("photos")).unwrap();
    for line in list.lines().skip(1) {
        let (file, shard) = (line.split(',').next().unwrap(), line.rsplit(',').next().unwrap());
        if shards.contains(&shard) {
            let target = place.join("photos").join(file);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(pictures.join("photos").join(file), target).unwrap();
        }
    }
    std::fs::write(place.join("photos.csv"), list).unwrap();
    let plan = format!(
        "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 12\nsteps = {steps}\n[data]\nformat = 'image-shards'\n\
         train = '/proc/self/cwd/photos'\ntrain_labels = '/proc/self/cwd/photos.csv'\nvalidation = 0.2\nsize = [16, 16]\n\
         [model]\nname = 'small-cnn'\n[optimiser]\nlearning_rate = 0.1\n[performance]\nthreads = 1\npatience = 8\n\
         [train]\nseed = 5\nevaluate_every = 4\ncheckpoint_every = 10\n"
    );
    std::fs::write(place.join("plan.toml"), plan).unwrap();
}

/// `mpirun` with one rank in each place.
fn in_places(places: &[&Path], arguments: &str) -> Command {
    let mut command = mpirun(places[0]);
    for (number, place) in places.iter().enumerate() {
        command.args(if number == 0 { &[][..] } else { &[":"] }).args(["-n", "1", "-wdir"]).arg(place);
        command.arg(env!("CARGO_BIN_EXE_dapple")).args(arguments.split_whitespace());
    }
    command.stdout(Stdio::null());
    command
}

/// No rank has all pictures, and the model is that of one process that has. A rank is killed, the run goes on with the shards elsewhere, and it is
/// still that model.
#[test]
fn ranks_that_have_some_shards_each_train_the_same_model() {
    if !launches() || !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let list = write_pictures(folder.path());
    let [whole, first, second, third] =
        ["whole", "first", "second", "third"].map(|name| folder.path().join(name));
    let furnish =
        |place: &Path, shards: &[&str], steps: u64| furnish(place, folder.path(), &list, shards, steps);
    const ALL: [&str; 3] = ["large", "middle", "small"];
    let left = |place: &Path, run: &str| {
        (model(&place.join(run)), std::fs::read_to_string(place.join(run).join("metrics.jsonl")).unwrap())
    };
    let train = |places: &[&Path], run: &str| {
        let output =
            in_places(places, &format!("train plan.toml --out {run} --device cpu --quiet")).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
    };
    furnish(&whole, &ALL, 12);
    train(&[&whole], "run");
    let expected = left(&whole, "run");
    let price = |place: &Path, run: &str| {
        let text = std::fs::read_to_string(place.join(run).join("certificate.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["spent"].clone()
    };
    // Whoever has what: one shard each, some twice, a rank that has nothing, and everybody all.
    let cases: [&[&[&str]]; 4] = [
        &[&["large"], &["middle", "small"]],
        &[&["small"], &["large", "middle"], &["middle"]],
        &[&[], &ALL],
        &[&ALL, &ALL, &ALL],
    ];
    for (number, shards) in cases.into_iter().enumerate() {
        let places = [&first, &second, &third];
        for (place, shards) in places.iter().zip(shards) {
            furnish(place, shards, 12);
        }
        let places: Vec<&Path> = places[..shards.len()].iter().map(|place| place.as_path()).collect();
        let run = format!("run{number}");
        train(&places, &run);
        assert_eq!(left(&first, &run), expected, "{shards:?}");
        assert_eq!(price(&first, &run), price(&whole, "run"), "{shards:?}");
    }
    // A rank dies. Alone, the first cannot go on, and says what it is without.
    const STEPS: u64 = 600;
    furnish(&whole, &ALL, STEPS);
    train(&[&whole], "long");
    furnish(&first, &["large"], STEPS);
    furnish(&second, &["middle", "small"], STEPS);
    let mut command = in_places(&[&first, &second], "train plan.toml --out run --device cpu --quiet");
    let mut launcher = command.stderr(Stdio::null()).spawn().unwrap();
    wait_until("steps", || taken(&first) >= 30 || launcher_ended(&launcher));
    let ranks = ranks_of(&launcher);
    if let Some(rank) = ranks.get(1) {
        Command::new("kill").args(["-KILL", &rank.to_string()]).status().unwrap();
    }
    finished(&mut launcher, &ranks);
    let spent = verified(&first);
    assert!(spent >= taken(&first) && (30..STEPS).contains(&spent), "{spent}");
    let ledger = std::fs::read(first.join("run/ledger.jsonl")).unwrap();
    let alone = in_places(&[&first], "resume run --quiet").output().unwrap();
    assert_eq!(alone.status.code(), Some(2), "{}", told(&alone));
    assert!(
        told(&alone).contains("it lies in shard \"") && told(&alone).contains("hint: "),
        "{}",
        told(&alone)
    );
    // Neither can two that have not all shards among them.
    furnish(&second, &["middle"], STEPS);
    let two = in_places(&[&first, &second], "resume run --quiet").output().unwrap();
    assert_eq!(two.status.code(), Some(2), "{}", told(&two));
    assert!(told(&two).contains("no rank has all of shard \"small\""), "{}", told(&two));
    assert_eq!(std::fs::read(first.join("run/ledger.jsonl")).unwrap(), ledger, "nothing was spent");
    // Three that have go on, with the shards dealt out anew.
    furnish(&first, &["small"], STEPS);
    furnish(&third, &["large"], STEPS);
    let three = in_places(&[&first, &second, &third], "resume run --quiet").output().unwrap();
    assert!(three.status.success(), "{}", told(&three));
    assert_eq!(left(&first, "run").0, model(&whole.join("long")));
}

/// What is not as the list says is refused with its rank, before anything is written.
#[test]
fn shards_that_are_not_what_the_list_says_are_refused() {
    if !launches() || !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let list = write_pictures(folder.path());
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let furnish_both = || {
        for (place, shards) in [(&first, &["large"][..]), (&second, &["middle", "small"])] {
            furnish(place, folder.path(), &list, shards, 4);
        }
    };
    let refused = |what: &str| {
        let output =
            in_places(&[&first, &second], "train plan.toml --out run --device cpu --quiet").output().unwrap();
        let words = told(&output);
        assert_eq!((output.status.code(), words.matches("error: ").count()), (Some(2), 1), "{words}");
        assert!(words.contains(what) && words.contains("hint: "), "{words}");
        assert!(!first.join("run").exists());
    };
    let of = |shard: &str| {
        let line = list.lines().find(|line| line.ends_with(&format!(",{shard}"))).unwrap();
        format!("photos/{}", line.split(',').next().unwrap())
    };
    furnish_both();
    std::fs::remove_file(second.join(of("small"))).unwrap();
    refused("no rank has all of shard \"small\"");
    furnish_both();
    image::RgbImage::new(16, 16).save(second.join(of("middle"))).unwrap();
    refused(&format!("rank 1: /proc/self/cwd/{}: its content is not what the list says", of("middle")));
    furnish_both();
    std::fs::write(second.join("photos.csv"), list.replace(",small\n", ",middle\n")).unwrap();
    refused("rank 1: the shards of the training data differs from that of rank 0");
    furnish_both();
    std::fs::write(second.join("photos.csv"), &list[..list.trim_end().rfind('\n').unwrap()]).unwrap();
    refused("rank 1:");
    furnish_both();
    for place in [&first, &second] {
        let plan = std::fs::read_to_string(place.join("plan.toml")).unwrap();
        std::fs::write(
            place.join("plan.toml"),
            plan.replace("[privacy]\n", "[privacy]\nrecords_per_clip = 3\n"),
        )
        .unwrap();
    }
    refused("privacy.records_per_clip: records that are clipped together may lie in shards of several ranks");
}

/// A kind of records beside pictures with one class: how they are written below a folder, listed, and named by a plan.
struct RecordKind {
    write: fn(&Path),
    list: &'static str,
    plain: &'static str,
    in_shards: &'static str,
    /// Where the files of the list's columns `file` and `labels` are.
    folders: &'static [&'static str],
    model: &'static str,
}

const RECORD_KINDS: [RecordKind; 3] = [
    RecordKind {
        write: |folder| {
            for number in 0..24u32 {
                for kind in ["images", "labels"] {
                    let path = folder.join(format!("data/{kind}/{number}.png"));
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    let bright = |x: u32, y: u32| (x / 4 + y / 4 + number) % 2;
                    let noise =
                        |x: u32, y: u32| (number * 977 + y * 31 + x).wrapping_mul(2_654_435_761) >> 27;
                    match kind {
                        "images" => image::RgbImage::from_fn(16, 16, |x, y| {
                            image::Rgb([(40 + 150 * bright(x, y) + noise(x, y)) as u8; 3])
                        })
                        .save(path),
                        _ => image::GrayImage::from_fn(16, 16, |x, y| image::Luma([bright(x, y) as u8]))
                            .save(path),
                    }
                    .unwrap();
                }
            }
        },
        list: "data list data --format image-pairs --shards 3 --out list.csv",
        plain: "format = 'image-pairs'\ntrain = '/proc/self/cwd/data'\nclasses = 2\nsize = [16, 16]\n",
        in_shards: "format = 'pair-shards'\ntrain = '/proc/self/cwd/data'\nclasses = 2\nsize = [16, 16]\n",
        folders: &["data/images", "data/labels"],
        model: "small-fcn",
    },
    RecordKind {
        write: |folder| {
            std::fs::create_dir_all(folder.join("data")).unwrap();
            prepare(folder, 1, "");
            for name in ["images.npy", "labels.npy"] {
                std::fs::rename(folder.join(name), folder.join("data").join(name)).unwrap();
            }
        },
        list: "data list data/images.npy --format npy --labels data/labels.npy --shards 3 --into data --out list.csv",
        plain: "format = 'npy'\ntrain = '/proc/self/cwd/data/images.npy'\ntrain_labels = '/proc/self/cwd/data/labels.npy'\n",
        in_shards: "format = 'array-shards'\ntrain = '/proc/self/cwd/data'\n",
        folders: &["data"],
        model: "small-cnn",
    },
    RecordKind {
        write: |folder| {
            for number in 0..24u32 {
                let path = folder.join(format!("data/{}/{number}.npy", number % 2));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                let value =
                    |i: u32| 40 + 150 * (number % 2) + ((number * 977 + i).wrapping_mul(2_654_435_761) >> 27);
                let values: Vec<u8> = (0..5 * 256).map(|i| value(i) as u8).collect();
                std::fs::write(path, npy("|u1", "5, 16, 16", &values)).unwrap();
            }
        },
        list: "data list data --format clip-folder --shards 3 --out list.csv",
        plain: "format = 'clip-folder'\nframes = 4\ntrain = '/proc/self/cwd/data'\nsize = [16, 16]\n",
        in_shards: "format = 'clip-shards'\nframes = 4\ntrain = '/proc/self/cwd/data'\nsize = [16, 16]\n",
        folders: &["data"],
        model: "small-clip",
    },
];

/// Label maps, arrays and clips in shards: no rank has all of them, and the model is that of one process that has them as they were before. A rank is
/// killed, the run goes on with the shards elsewhere, and it is still that model. What is not as the list says is refused.
#[test]
fn ranks_train_on_shards_of_every_kind() {
    if !launches() || !cfg!(target_os = "linux") {
        return;
    }
    const STEPS: u64 = 300;
    const TRAIN: &str = "train plan.toml --out run --device cpu --quiet";
    for kind in RECORD_KINDS {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path();
        (kind.write)(whole);
        let plan = |place: &Path, data: &str| {
            let plan = format!(
                "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 6\nsteps = {STEPS}\n[data]\n{data}validation = 0.25\n\
                 [model]\nname = '{}'\n[optimiser]\nlearning_rate = 0.1\n[performance]\nthreads = 1\npatience = 8\n\
                 [train]\nseed = 5\nevaluate_every = 50\ncheckpoint_every = 10\n",
                kind.model
            );
            std::fs::write(place.join("plan.toml"), plan).unwrap();
        };
        let one = |arguments: &str| {
            let output = Command::new(env!("CARGO_BIN_EXE_dapple"))
                .args(arguments.split_whitespace())
                .current_dir(whole)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", told(&output));
        };
        plan(whole, kind.plain);
        one(TRAIN);
        let left = |place: &Path| {
            let metrics = std::fs::read_to_string(place.join("run/metrics.jsonl")).unwrap();
            (model(&place.join("run")), metrics)
        };
        let expected = left(whole);
        one(kind.list);
        let list = std::fs::read_to_string(whole.join("list.csv")).unwrap();
        let places: Vec<_> = (0..4).map(|place| folder.path().join(format!("place{place}"))).collect();
        let furnish = |place: &Path, shards: &[&str]| {
            let _ = std::fs::remove_dir_all(place.join("data"));
            std::fs::create_dir_all(place.join("data")).unwrap();
            for line in list.lines().skip(1).filter(|line| shards.contains(&line.rsplit(',').next().unwrap()))
            {
                for (folder, file) in kind.folders.iter().zip(line.split(',')) {
                    let target = place.join(folder).join(file);
                    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
                    std::fs::copy(whole.join(folder).join(file), target).unwrap();
                }
            }
            std::fs::write(place.join("list.csv"), &list).unwrap();
            plan(place, &format!("{}train_labels = '/proc/self/cwd/list.csv'\n", kind.in_shards));
        };
        let furnished = |shards: &[&[&str]]| -> Vec<&Path> {
            let _ = std::fs::remove_dir_all(places[0].join("run"));
            places.iter().zip(shards).for_each(|(place, shards)| furnish(place, shards));
            places[..shards.len()].iter().map(|place| place.as_path()).collect()
        };
        let cases: [&[&[&str]]; 3] =
            [&[&["0", "1", "2"]], &[&["1"], &["2", "0"]], &[&["2"], &["0", "2"], &[], &["1"]]];
        for shards in cases {
            let places = furnished(shards);
            let output = in_places(&places, TRAIN).output().unwrap();
            assert!(output.status.success(), "{}", told(&output));
            assert_eq!(left(places[0]), expected, "{} {shards:?}", kind.model);
        }
        // A rank dies, and the run goes on where the shards are then.
        let places = furnished(&[&["1"], &["0", "2"]]);
        let first = places[0];
        let mut launcher = in_places(&places, TRAIN).stderr(Stdio::null()).spawn().unwrap();
        wait_until("steps", || taken(first) >= 30 || launcher_ended(&launcher));
        let ranks = ranks_of(&launcher);
        if let Some(rank) = ranks.get(1) {
            Command::new("kill").args(["-KILL", &rank.to_string()]).status().unwrap();
        }
        finished(&mut launcher, &ranks);
        let (spent, taken) = (verified(first), taken(first));
        assert!(spent >= taken && taken >= 30, "{spent} {taken}");
        places.iter().zip([&["0"][..], &["1"]]).for_each(|(place, shards)| furnish(place, shards));
        let output = in_places(&places, "resume run --quiet").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(told(&output).contains("no rank has all of shard \"2\""), "{}", told(&output));
        places.iter().zip([&["0", "2"][..], &["1"]]).for_each(|(place, shards)| furnish(place, shards));
        let output = in_places(&places, "resume run --quiet").output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        assert_eq!(left(first).0, expected.0, "{}", kind.model);
        // What is not as the list says is refused with its rank, before anything is written.
        let places = furnished(&[&["1"], &["2", "0"]]);
        let files = std::fs::read_to_string(places[1].join("list.csv")).unwrap();
        let line = files.lines().find(|line| line.ends_with(",2")).unwrap();
        let file = places[1].join(kind.folders[0]).join(line.split(',').next().unwrap());
        let mut bytes = std::fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let output = in_places(&places, TRAIN).output().unwrap();
        let words = told(&output);
        assert_eq!((output.status.code(), words.matches("error: ").count()), (Some(2), 1), "{words}");
        assert!(words.contains("rank 1: ") && words.contains("is not what the list says"), "{words}");
        assert!(words.contains("hint: ") && !places[0].join("run").exists(), "{words}");
    }
}
