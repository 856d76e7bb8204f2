//! Tests runs that several ranks share, each with a card; here ranks are threads, and on a machine with one card they share it.

use dapple_engine::cuda::CudaLink;
use dapple_plan::spec::{DeviceChoice, Performance};
use dapple_train::{TrainError, Verdict, resume, start, start_among, verify};

use crate::common::{Recorder, among, model_bytes};
use crate::{alone, on, plan};

const OPTIMISER: &str = "learning_rate = 0.05\nmomentum = 0.9\nema = 0.9";

/// Two ranks that share a card add their sums up on the host, and a rank alone joins its card to no other by NCCL: both have the bits of a process alone,
/// and so has a run that two began and one ended.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn ranks_have_the_bits_of_one_process_on_the_card() {
    let (_card, folder) = alone();
    let folder = folder.path();
    let first = |device: &str| on(device.parse::<DeviceChoice>().unwrap());
    let request = |performance: &Performance| plan(folder, "small-cnn", OPTIMISER, performance);
    let left = |name: &str| {
        let run = folder.join(name);
        assert!(matches!(verify(&run, None).unwrap(), Verdict::Valid { .. }));
        (model_bytes(&run), std::fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default())
    };
    start(&request(&first("cuda:0")), &folder.join("alone"), &mut Recorder::default()).unwrap();
    let expected = left("alone");
    if !CudaLink::is_possible() {
        println!("one rank by NCCL: not checked: NCCL was not found");
    }
    for (ranks, device) in [(1, "cuda:0"), (1, "cuda:all"), (2, "cuda:0"), (3, "cuda:0")] {
        let (request, name) = (request(&first(device)), format!("{ranks}-{}", device.replace(':', "-")));
        let others = vec![Some(request.clone()); ranks - 1];
        let outcome = among(&others, |group| {
            start_among(group, &request, &folder.join(&name), None, &mut Recorder::default())
        });
        let machine = &outcome.unwrap().certificate.machines[0];
        assert!(machine.machine.starts_with("cuda:0"), "{}", machine.machine);
        assert!(left(&name) == expected, "{name}: other bits than one process");
    }
    let (request, run) = (request(&first("cuda:0")), folder.join("parts"));
    among(&[Some(request.clone())], |group| {
        let mut stopping = Recorder { stop_after: Some(7), ..Recorder::default() };
        start_among(group, &request, &run, None, &mut stopping)
    })
    .unwrap();
    resume(&run, &mut Recorder::default()).unwrap();
    assert!(left("parts") == expected, "a run that went on has other bits");
}

/// What was asked for and is not there is said of the rank that lacks it, before anything is written.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn ranks_without_their_cards_are_refused() {
    let (_card, folder) = alone();
    let folder = folder.path();
    for device in ["cuda:99", "cuda:0,99"] {
        let request = plan(folder, "small-cnn", OPTIMISER, &on(device.parse().unwrap()));
        let error = among(&[Some(request.clone())], |group| {
            start_among(group, &request, &folder.join("missing"), None, &mut Recorder::default())
        });
        let error = error.err().unwrap();
        assert!(matches!(error, TrainError::Setting { .. }) && error.hint().is_some(), "{error}");
        assert!(error.to_string().contains("there is no cuda:99"), "{error}");
        assert!(!folder.join("missing").exists());
    }
}
