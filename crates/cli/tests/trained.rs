//! The entries of `dapple reproduce` that train: what they print, keep and refuse.

#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{dapple, dapple_with, digits, exact_snapshot, rows};
use serde_json::Value;

#[test]
fn digits_are_trained_whole_and_cropped_and_then_read_again() {
    let command = "reproduce patch/table1 --data digits --steps 2 --json --out runs";
    let run = dapple_with(command, digits);
    let answer = run.json();
    let rows = rows(&answer);
    let crops: Vec<&Value> = rows.iter().map(|row| &row["crop"]).collect();
    assert_eq!(crops, [&Value::Null, &Value::from(10)]);
    assert!(rows.iter().all(|row| row["model"] == "ResNet-18" && row["steps"] == 2));
    assert_eq!((&rows[0]["paper_accuracy"], &rows[1]["paper_accuracy"]), (&0.994.into(), &0.26.into()));
    // Each accuracy is a share of twenty images.
    for accuracy in [&rows[0]["accuracy"], &rows[1]["accuracy"], &rows[1]["averaged_accuracy"]] {
        let right = 20.0 * accuracy.as_f64().unwrap();
        assert!((right - right.round()).abs() < 1e-9 && (0.0..=20.0).contains(&right), "{accuracy}");
    }
    assert_eq!(answer["paper"].as_array().unwrap().len(), 2);
    let again = |arguments: &str| {
        let words = arguments.split_whitespace();
        let binary = env!("CARGO_BIN_EXE_dapple");
        Command::new(binary).args(words).current_dir(run.folder.path()).output().unwrap()
    };
    // Finished runs are read again: nothing is trained, and the same comes out.
    let second = again(command);
    assert_eq!((String::from_utf8(second.stderr).unwrap(), second.status.code()), (String::new(), Some(0)));
    assert_eq!(serde_json::from_slice::<Value>(&second.stdout).unwrap(), answer);
    // A run of other settings is not taken for one of these.
    let other = again(&command.replace("--steps 2", "--steps 3"));
    let stderr = String::from_utf8(other.stderr).unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr.contains("has another plan") && stderr.contains("another --out"), "{stderr}");
}

#[test]
fn scenes_are_trained_at_both_levels_and_every_budget() {
    let files = "--json --csv a.csv --svg a.svg --html a.html -q";
    let run = dapple(&format!("reproduce patch/fig13 --scale tiny --steps 2 --seeds 1 {files}"));
    let answer = run.json();
    // Runs are deleted after the experiment unless --out keeps them.
    assert_eq!((run.files().join(" "), run.stderr.as_str()), ("a.csv a.html a.svg".to_owned(), ""));
    let rows = rows(&answer);
    assert_eq!(rows.len(), 8);
    assert_eq!(run.read("a.csv").lines().count(), 9);
    for pair in rows.chunks(2) {
        let [record, patch] = [&pair[0], &pair[1]];
        assert_eq!((&record["level"], &patch["level"]), (&"record".into(), &"patch".into()));
        for run in [record, patch] {
            assert!(run["epsilon"].as_f64().unwrap() <= run["epsilon_target"].as_f64().unwrap());
        }
        // The same promise takes less noise for a patch, because a crop may miss it.
        assert!(record["noise_multiplier"].as_f64() > patch["noise_multiplier"].as_f64());
        assert!(patch["inclusion_probability"].as_f64().unwrap() < 1.0);
    }
    assert_eq!(answer["summary"]["rows"].as_array().unwrap().len(), 8);
    assert!(run.read("a.html").contains("more accurate at every budget"));
}

#[test]
fn streets_are_trained_at_both_levels_by_both_schemes() {
    let run = dapple("reproduce patch/fig5 --scale tiny --steps 2 --seeds 1 --json --html a.html -q");
    let answer = run.json();
    let rows = rows(&answer);
    let methods: Vec<&Value> = rows.iter().map(|row| &row["method"]).collect();
    assert_eq!(methods[..4], ["record", "patch", "record-poisson", "patch-poisson"]);
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| (0.0..=1.0).contains(&row["miou"].as_f64().unwrap())));
    for pair in rows.chunks(2) {
        // The same promise takes less noise for a patch, because a crop may miss it.
        assert!(pair[0]["noise_multiplier"].as_f64() > pair[1]["noise_multiplier"].as_f64());
    }
    assert_eq!(answer["paper"].as_array().unwrap().len(), 2);
    assert!(run.read("a.html").contains("higher mIoU at every budget"));
}

#[test]
fn microbatches_and_mixtures_are_trained_on_scenes() {
    let run = dapple("reproduce mix/table1 --steps 2 --seeds 1 --json --svg a.svg -q");
    let answer = run.json();
    let rows = rows(&answer);
    let of = |name: &str| rows.iter().map(|row| row[name].as_f64().unwrap()).collect::<Vec<f64>>();
    assert_eq!(of("views"), [1.0, 1.0, 1.0, 4.0, 4.0]);
    assert_eq!(of("mixtures"), [0.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(of("records_per_clip"), [1.0, 2.0, 2.0, 1.0, 2.0]);
    // Pairs have twice the sensitivity, and so twice the noise.
    let noise = of("noise_multiplier");
    for (pairs, alone) in [(1, 0), (2, 0), (4, 3)] {
        assert!((noise[pairs] / noise[alone] - 2.0).abs() < 1e-3, "{noise:?}");
    }
    assert_eq!(of("paper_accuracy")[0], 0.725);
    assert!(answer["notes"].to_string().contains("only methods may be compared"), "{}", answer["notes"]);
}

#[test]
fn last_layers_are_trained_beside_public_images() {
    let run = dapple("reproduce mix/table10 --steps 2 --seeds 1 --json --out runs -q");
    let answer = run.json();
    let trained = rows(&answer);
    let of = |name: &str| trained.iter().map(|row| row[name].as_f64().unwrap()).collect::<Vec<f64>>();
    assert_eq!((of("public_images"), of("views")), (vec![0.0, 1.0, 1.0], vec![4.0; 3]));
    let paper = of("paper_accuracy").into_iter().map(|share| (1000.0 * share).round());
    assert_eq!(paper.collect::<Vec<f64>>(), [969.0, 969.0, 970.0]);
    // What stands beside a record costs nothing.
    assert!(of("noise_multiplier").iter().all(|&noise| noise == of("noise_multiplier")[0]));
    // One network is pretrained for all, and nothing of it but the last layer is trained; only two of the three show a pool.
    assert_eq!(run.files(), ["runs"]);
    let plans = std::fs::read_dir(run.folder.path().join("runs")).unwrap();
    let plans =
        plans.filter_map(|folder| std::fs::read_to_string(folder.unwrap().path().join("plan.toml")).ok());
    let plans: Vec<String> = plans.collect();
    let count = |text: &str| plans.iter().filter(|plan| plan.contains(text)).count();
    assert_eq!((plans.len(), count("private = false"), count("tune = \"head\"")), (4, 1, 3));
    assert_eq!((count("garments/synthetic"), count("garments/real"), count("garments/private")), (1, 1, 3));
    assert_eq!(count("pretrained/model.safetensors"), 3);
}

#[test]
fn every_method_of_fine_tuning_is_trained_at_every_budget() {
    let answer = dapple("reproduce mix/table3 --steps 1 --seeds 1 --json -q").json();
    let methods: Vec<String> = rows(&answer).iter().map(|row| row["method"].to_string()).collect();
    assert_eq!(methods.len(), 16);
    for method in ["Mixed Ghost", "Self-Aug", "DP-Mix_self", "DP-Mix_diff"] {
        assert_eq!(methods.iter().filter(|name| name.contains(method)).count(), 4, "{method}");
    }
    assert_eq!(answer["paper"].as_array().unwrap().len(), 2);
}

#[test]
fn submodels_are_trained_with_the_noise_of_known_and_of_hidden_ones() {
    let run = dapple("reproduce partition/table1 --steps 1 --seeds 1 --json --out runs -q");
    let answer = run.json();
    let trained = rows(&answer);
    let of = |name: &str| trained.iter().map(|row| row[name].as_f64().unwrap()).collect::<Vec<f64>>();
    assert_eq!(of("submodels"), [2.0, 2.0, 4.0, 4.0, 1.0]);
    assert_eq!(of("paper_accuracy"), [0.798, 0.8243, 0.768, 0.8052, 0.8499]);
    let (noise, epsilon) = (of("noise_multiplier"), of("epsilon"));
    // Submodels that everybody knows take the noise of the whole model, which is solved for elsewhere; hidden ones take less, the less the
    // more there are.
    for told in [noise[0], noise[2]] {
        assert!((told / noise[4] - 1.0).abs() < 1e-4, "{noise:?}");
    }
    assert!(noise[4] > noise[1] && noise[1] > noise[3], "{noise:?}");
    assert!(epsilon.iter().all(|&epsilon| epsilon <= 8.0) && epsilon[2] < epsilon[0], "{epsilon:?}");
    assert_eq!(answer["paper"].as_array().unwrap().len(), 2);
    let plan = |name: &str| run.read(&format!("runs/{name}/plan.toml"));
    let [told, hidden] = ["-told", ""].map(|told| plan(&format!("tuned-submodels4{told}-poisson-1")));
    for plan in [&told, &hidden] {
        assert!(
            plan.contains("blocks.0..blocks.3") && plan.contains("pretrained-1/model.safetensors"),
            "{plan}"
        );
    }
    assert!(plan("pretrained-1").contains("public.npy") && hidden.contains("private.npy"));
}

#[test]
fn users_of_two_images_are_trained_with_submodels() {
    let run = dapple("reproduce partition/table2 --steps 1 --seeds 1 --json --out runs -q");
    let answer = run.json();
    let trained = rows(&answer);
    let of = |name: &str| trained.iter().map(|row| row[name].as_f64().unwrap()).collect::<Vec<f64>>();
    assert_eq!(of("submodels"), [2.0, 2.0, 4.0, 4.0, 1.0]);
    assert_eq!(of("paper_accuracy"), [0.7847, 0.8028, 0.7696, 0.7911, 0.8218]);
    let (noise, epsilon) = (of("noise_multiplier"), of("epsilon"));
    assert!(noise[4] > noise[1] && noise[1] > noise[3], "{noise:?}");
    assert!(epsilon.iter().all(|&epsilon| epsilon <= 8.0) && epsilon[2] < epsilon[0], "{epsilon:?}");
    let plan = run.read("runs/tuned-submodels4-poisson-users-1/plan.toml");
    for part in
        ["relation = \"user\"", "private.users.npy", "local_steps = 3", "batch = 875", "records = 875"]
    {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    let certificate = run.read("runs/tuned-submodels4-poisson-users-1/certificate.json");
    assert!(certificate.contains("all records of the user") && certificate.contains("one of 4 submodels"));
}

#[test]
fn balanced_and_poisson_sampling_are_trained_from_scratch_and_fine_tuned() {
    let run = dapple("reproduce partition/section4.2 --steps 4 --seeds 1 --json -q");
    let answer = run.json();
    let trained = rows(&answer);
    let samplings: Vec<&Value> = trained.iter().map(|row| &row["sampling"]).collect();
    assert_eq!(samplings, ["poisson", "balanced", "poisson", "balanced"]);
    assert!(trained.iter().all(|row| row["epsilon"].as_f64().unwrap() <= 8.0));
    assert_eq!(answer["paper"].as_array().unwrap().len(), 1);
}

/// Every row has the noise of its own certificate. Neighbours that differ by one content against another take more of it than those that differ
/// by one against none, private tokens from batches of their own as much as whole clips, and public gradients that tell of draws the most.
#[test]
fn private_tokens_of_clips_are_trained_in_every_mode() {
    let run = dapple("reproduce mask/table2 --steps 1 --seeds 1 --json --out runs -q");
    let answer = run.json();
    let trained = rows(&answer);
    assert_eq!(trained.len(), 3 * 8 + 1);
    let noise = |method: &str, epsilon: f64| {
        let is_one = |row: &&Value| row["method"] == method && row["epsilon_target"] == epsilon;
        trained.iter().find(is_one).unwrap()["noise_multiplier"].as_f64().unwrap()
    };
    for epsilon in [0.5, 2.0, 5.0] {
        for content in ["remove", "substitute"] {
            let of = |mode: &str| noise(&format!("masked-{content}-{mode}"), epsilon);
            // Each is solved for to a ten-thousandth.
            let whole = noise(&format!("whole-{content}"), epsilon);
            assert!((of("decoupled") / whole - 1.0).abs() < 2e-4, "{epsilon} {content}");
            assert!(of("decoupled") < of("coupled-clipped") && of("coupled-clipped") < of("coupled"));
        }
        assert!(noise("whole-remove", epsilon) < noise("whole-substitute", epsilon));
    }
    let open = trained.iter().find(|row| row["method"] == "open").unwrap();
    assert!(open["noise_multiplier"].is_null() && open["epsilon_target"].is_null());
    let printed = |row: usize| (1000.0 * trained[row]["paper"].as_f64().unwrap()).round();
    assert_eq!([printed(0), printed(1)], [24.0, 82.0]);
    assert_eq!(answer["paper"].as_array().unwrap().len(), 2);
    let plan = run.read("runs/hmdb-51-masked-remove-coupled-clipped-epsilon2-1/plan.toml");
    assert!(plan.contains("private = \"background\"") && plan.contains("public_clip = 1.0"), "{plan}");
}

#[test]
fn wrong_requests_are_refused_before_anything_is_trained() {
    let mut report = String::new();
    for arguments in [
        "reproduce patch/table1",
        "reproduce patch/table1 --data nowhere",
        "reproduce patch/table1 --data digits --steps 0",
        "reproduce patch/table1 --data digits --weights w.safetensors",
        "reproduce patch/table1 --data digits --points 3",
        "reproduce patch/fig13 --data digits",
        "reproduce patch/fig13 --scale huge",
        "reproduce patch/fig13 --scale small",
        "reproduce mix/table2 --scale small",
        "reproduce mix/table2 --scale small --data digits",
        "reproduce mix/table5 --model vgg-11",
        "reproduce mix/table5 --pool digits",
        "reproduce mix/table3 --pool digits",
        "reproduce mix/table3 --scale small",
        "reproduce mix/table9 --scale small --data digits",
        "reproduce mix/table9 --scale full --data digits --weights digits",
        "reproduce mix/table9 --scale full --data digits --weights digits --pool digits",
        "reproduce mix/table10 --scale full --data digits --weights digits --pool digits --model vgg-11",
        "reproduce patch/fig13 --scale full --data digits",
        "reproduce patch/fig13 --scale full --data digits --weights w.safetensors --model resnet-50",
        "reproduce patch/fig13 --scale full --data digits --weights w.safetensors",
        "reproduce patch/fig5 --weights w.safetensors",
        "reproduce patch/fig5 --model resnet-18",
        "reproduce patch/fig5 --data digits",
        "reproduce patch/fig5 --scale small",
        "reproduce patch/fig5 --scale full --data digits",
        "reproduce patch/fig3 --scale tiny",
        "reproduce partition/table1 --weights w.safetensors",
        "reproduce partition/table1 --data digits",
        "reproduce partition/table1 --scale full",
        "reproduce partition/table1 --scale small --data digits",
        "reproduce partition/table1-noise --seeds 2",
        "reproduce mask/table1 --model vgg-11",
        "reproduce mask/table1 --data clips",
        "reproduce mask/table1 --scale small",
        "reproduce mask/table1 --scale small --data clips",
    ] {
        let run = dapple_with(arguments, digits);
        assert_eq!(run.code, 2, "{arguments}: {}", run.stderr);
        assert_eq!(run.files(), ["digits"], "{arguments}");
        let stderr = run.stderr.replace(&run.folder.path().display().to_string(), "FOLDER");
        report.push_str(&format!("$ dapple {arguments}\n{stderr}"));
    }
    exact_snapshot("trained_wrong", &report);
}
