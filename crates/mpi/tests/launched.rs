//! Ranks under a launcher, where one is installed. `DAPPLE_MPIRUN` names other launchers than the `mpirun` of the path, separated by colons.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dapple_mpi::World;

const TASK: &str = "DAPPLE_MPI_TASK";

/// The launchers that are installed; a line says so if there is none.
fn launchers() -> Vec<PathBuf> {
    let named = std::env::var_os("DAPPLE_MPIRUN").unwrap_or_else(|| "mpirun".into());
    let found: Vec<PathBuf> =
        std::env::split_paths(&named).filter(|launcher| version(launcher).is_some()).collect();
    if found.is_empty() {
        println!("SKIPPED: no mpirun is installed (Debian: apt install openmpi-bin)");
    }
    found
}

fn version(launcher: &PathBuf) -> Option<String> {
    let output = Command::new(launcher).arg("--version").stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a task below on this many ranks.
fn launch(launcher: &PathBuf, ranks: usize, task: &str) -> Output {
    let mut command = Command::new(launcher);
    command.args(["-n", &ranks.to_string()]);
    if version(launcher).unwrap().contains("Open") {
        command.arg("--oversubscribe");
    }
    command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "rank", "--ignored", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What a rank does; no test of its own.
#[test]
#[ignore = "run by the tests below, on several ranks"]
fn rank() {
    let Ok(task) = std::env::var(TASK) else { return };
    let world = World::join(|error| eprintln!("told: {error}")).unwrap().expect("several ranks");
    match task.as_str() {
        "together" => together(&world),
        "hang" => {
            world.set_patience(Duration::from_millis(1500));
            if world.rank() == 1 {
                std::thread::sleep(Duration::from_secs(600));
            }
            let _ = world.gather(&[1]);
        }
        "die" => {
            if world.rank() == 1 {
                std::process::abort();
            }
            let _ = world.gather(&[1]);
        }
        "panic" => {
            assert!(world.rank() != 1, "as a rank with a bug would");
            let _ = world.gather(&[1]);
        }
        "thread" => {
            std::thread::scope(|scope| scope.spawn(|| world.gather(&[1])).join()).unwrap();
        }
        "leave" => {
            // One rank leaves in order, and nobody waits for the launcher to notice.
            world.set_patience(Duration::from_millis(1500));
            if world.rank() == 0 {
                let _ = world.gather(&[1]);
            }
        }
        other => panic!("{other}"),
    }
}

fn together(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    let own: Vec<u8> = (0..1000 * rank).map(|index| (index * 7 + rank) as u8).collect();
    let all = world.gather(&own);
    for (rank, bytes) in all.iter().enumerate() {
        let expected: Vec<u8> = (0..1000 * rank).map(|index| (index * 7 + rank) as u8).collect();
        assert_eq!(*bytes, expected);
    }
    let mut first =
        if rank == 0 { (0..100_000).map(|index| (index % 251) as u8).collect() } else { Vec::new() };
    world.broadcast(&mut first);
    assert!(
        first.len() == 100_000 && first.iter().enumerate().all(|(index, &byte)| byte == (index % 251) as u8)
    );
    // Numbers at the edges of what they may be, and as many as a model has.
    let mut wide: Vec<i64> = (0..300_000).map(|index| (index - 150_000) << 36 | rank as i64).collect();
    world.add_wide(&mut wide);
    let ranks = size as i64;
    let tail = ranks * (ranks - 1) / 2;
    assert!(
        wide.iter().enumerate().all(|(index, &sum)| sum == (((index as i64 - 150_000) << 36) * ranks) + tail)
    );
    let least = i32::MIN / size as i32;
    let mut narrow = vec![least; 1_000_003];
    world.add_narrow(&mut narrow);
    assert!(narrow.iter().all(|&sum| sum == least * size as i32));
    let mut plain = [0.25f32; 5];
    world.add_plain(&mut plain);
    assert_eq!(plain, [0.25 * size as f32; 5]);
    world.add_wide(&mut []);
    let mut nothing = Vec::new();
    world.broadcast(&mut nothing);
    assert!(nothing.is_empty());
    // In one piece, because ranks share a terminal.
    let line = format!("together: rank {rank} of {size} on {}\n", world.words());
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn ranks_hear_and_add_up_what_all_bring() {
    for launcher in launchers() {
        for ranks in [2, 3] {
            let output = launch(&launcher, ranks, "together");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{launcher:?}: {told}");
            for rank in 0..ranks {
                assert!(
                    told.contains(&format!("together: rank {rank} of {ranks} on ")),
                    "{launcher:?}: {told}"
                );
            }
            println!("{}: {}", launcher.display(), told.lines().next().unwrap_or_default());
        }
    }
}

/// None of these may hang; that each returns at all is the test.
#[test]
fn nobody_waits_for_ever() {
    for launcher in launchers() {
        for (task, words) in [
            ("hang", "for the others in vain"),
            ("die", ""),
            ("panic", "as a rank with a bug would"),
            ("thread", "called from another thread"),
            ("leave", "for the others in vain"),
        ] {
            let output = launch(&launcher, 2, task);
            let told = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            // Where ranks are out of step, the library may notice before the patience is at its end.
            let noticed = told.contains(words) || (task == "leave" && told.contains("told: MPI_"));
            assert!(!output.status.success() && noticed, "{launcher:?}, {task}: {told}");
        }
    }
}

/// Where a library does not know its launcher, each process would begin a run of its own, on its own machine, with nobody to add them up.
#[test]
fn a_process_that_finds_no_other_does_not_go_on_alone() {
    if launchers().is_empty() {
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rank", "--ignored", "--nocapture", "--test-threads=1"])
        .env(TASK, "together")
        .env("OMPI_COMM_WORLD_SIZE", "3")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    // MPICH may refuse to begin at all.
    let refused =
        told.contains("Alone { size: Some(3)") || told.contains("Failed { call: \"MPI_Init_thread\"");
    assert!(!output.status.success() && refused, "{told}");
}

#[test]
fn a_process_without_a_launcher_is_alone() {
    let launched =
        ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"].iter().any(|name| std::env::var_os(name).is_some());
    assert!(launched || World::join(|_| ()).unwrap().is_none());
}
