//! Certificates are read back to the last bit, also those from before they had a schema.

use dapple_plan::PlanSpec;
use dapple_plan::{Bracket, BracketPrecision, Plan};
use proptest::prelude::*;

use super::*;

fn price() -> Certificate {
    let text = "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[region]\npatch = [2, 2]\n[pipeline]\nimage = [20, 20]\n\
        crop = [8, 8]\n[sampling]\nbatch = 10\nrecords = 100\nsteps = 5\n";
    let plan = Plan::check(&PlanSpec::from_toml(text).unwrap()).unwrap();
    plan.price(BracketPrecision::default()).unwrap()
}

fn certificate(spent: Certificate, clip_norm: f64, record: Bracket) -> RunCertificate {
    RunCertificate {
        schema: SCHEMA,
        program_version: "1.2.3".into(),
        date: "2026-01-31".into(),
        status: Status::Stopped,
        private: true,
        warnings: vec![Warning::Seeded, Warning::Other("Something new.".into())],
        machines: vec![UsedMachine { step: 0, machine: "cpu".into(), ranks: None }],
        steps_spent: 3,
        planned: Some(spent.clone()),
        spent: Some(spent),
        record_level: Some(RecordLevel { relation: Relation::Replace, spent: None, planned: Some(record) }),
        public_records: Some(100),
        clip_norm: Some(clip_norm),
        rounding: Some(Rounding {
            rho: 1.0 / clip_norm.max(1.0),
            known: Known::Assumed,
            because: "Words.".into(),
        }),
        image: Some([20, 20]),
        crop: Some([8, 8]),
        patch: Some([2, 2]),
        region: Some("a patch of 2x2 pixels".into()),
        labels: Some(LabelStatus::ClassPublic),
        first_weights: Some(FirstWeights {
            sha256: "00".into(),
            origin: Origin::Initialisation,
            assumed_public: true,
        }),
        model_sha256: None,
        spec: "spec".into(),
        ledger: "head".into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_number_is_read_back_to_its_bits(bits in prop::array::uniform5(any::<u64>())) {
        let values = bits.map(f64::from_bits);
        prop_assume!(values.iter().all(|value| value.is_finite()));
        let mut spent = price();
        spent.epsilon = Bracket { lower: Some(values[0]), upper: values[1] };
        spent.sample_rate = values[2];
        let written = certificate(spent, values[3], Bracket { lower: None, upper: values[4] });
        let read = RunCertificate::from_json(&written.to_json()).unwrap();
        prop_assert_eq!(&read, &written);
        // Compare bits, because zero equals minus zero.
        let price = read.spent.unwrap();
        let found = [price.epsilon.lower.unwrap(), price.epsilon.upper, price.sample_rate, read.clip_norm.unwrap(),
            read.record_level.unwrap().planned.unwrap().upper];
        prop_assert_eq!(found.map(f64::to_bits), bits);
        let alone = Certificate::from_json(&price.to_json()).unwrap();
        prop_assert_eq!(alone, price);
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        prop_assert!(RunCertificate::from_json(&text).is_err());
    }
}

#[test]
fn certificates_of_before_there_was_a_schema_are_read() {
    let text = include_str!("../../tests/folders/finished/certificate.json");
    let read = RunCertificate::from_json(text).unwrap();
    assert_eq!((read.schema, read.status, read.steps_spent), (0, Status::Finished, 20));
    assert_eq!(read.spent, read.planned);
    assert!(read.record_level.is_none() && read.date.is_empty());
}
