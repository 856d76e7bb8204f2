//! `dapple measure`: what it refuses. Its figures are tested where they are computed.

#![allow(clippy::unwrap_used)]

mod common;

use common::dapple;

#[test]
fn wrong_requests_are_refused_with_a_hint() {
    for (arguments, said) in [
        ("fid a b --model resnet-18 --weights w.safetensors", "w.safetensors"),
        ("fid a b --model resnet-18 --weights w.safetensors --block 3", "fid has no blocks"),
        ("inception a b --model resnet-18 --weights w.safetensors", "invalid value"),
        ("kid a b --model resnet-18 --weights w.safetensors --size wide", "not a size such as 224x224"),
        ("kid a b --model resnet-18", "--weights"),
    ] {
        let run = dapple(&format!("measure {arguments}"));
        assert_eq!((run.code, run.stdout.as_str(), run.files().len()), (2, "", 0), "{arguments}");
        assert!(run.stderr.contains(said) && run.stderr.contains("hint: "), "{arguments}: {}", run.stderr);
    }
}
