//! What dropout drops follows from the record and its view.

use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{Batch, Clipping, DropoutSource, Layout, Targets};
use dapple_graph::op::Dropout;

use crate::common::{Data, parameters};
use crate::graphs::dropping;
use crate::operations::all_agree;
use crate::subject::Subject;

pub(crate) fn dropout_agrees(subjects: &[Subject]) {
    let graph = dropping(Dropout::of_values(0.4));
    let data = Data::new(&graph, 4, 2);
    let dropout = Some(DropoutSource { seed: 5, records: &[3, 141, 59, 26] });
    let batch = Batch { dropout, ..data.batch() };
    all_agree(subjects, "dropout", &graph, &batch, &Clipping::Flat { max_norm: 0.5 });
    for subject in subjects {
        let of = |batch: &Batch<'_>| {
            subject.planned_for(4).step(&graph, &parameters(&graph), batch, &Clipping::Off).gradient
        };
        assert_ne!(of(&data.batch()), of(&batch), "{subject:?}");
    }
}

/// Some of six samples in a chosen order, as records with chosen numbers.
struct Chosen {
    inputs: Vec<f32>,
    classes: Vec<u32>,
    records: Vec<usize>,
    seed: u64,
}

/// How many values and how many views one sample has.
const SIZE: usize = VIEWS * 3 * 4 * 4;
const VIEWS: usize = 2;

impl Chosen {
    fn new(data: &Data, samples: &[usize], records: &[usize], seed: u64) -> Self {
        let inputs = samples.iter().flat_map(|&i| &data.inputs[i * SIZE..(i + 1) * SIZE]).copied().collect();
        let classes = samples.iter().flat_map(|&i| [i as u32, i as u32 + 7]).collect();
        Self { inputs, classes, records: records.to_vec(), seed }
    }

    fn batch(&self) -> Batch<'_> {
        let dropout = Some(DropoutSource { seed: self.seed, records: &self.records });
        Batch { views: VIEWS, dropout, ..Batch::new(&self.inputs, Targets::Classes(&self.classes)) }
    }
}

/// What is dropped of a record, and so what the record adds, has the same bits alone, at two places, and in two companies.
pub(crate) fn dropout_follows_the_record(subjects: &[Subject]) {
    for op in [Dropout::of_values(0.4), Dropout::of_channels(0.4)] {
        let graph = dropping(op);
        let (values, data) = (parameters(&graph), Data::new(&graph, 6, VIEWS));
        for subject in subjects {
            let mut opened = subject.planned_for(5).open(&graph);
            let rule = opened.rule(&Clipping::Flat { max_norm: 0.5 });
            let mut counts = |samples: &[usize], records: &[usize], seed: u64| {
                opened.counts(&values, &[Chosen::new(&data, samples, records, seed).batch()], &rule)
            };
            let less = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
            let alone = counts(&[2], &[700], 5);
            let first = counts(&[2, 0, 1], &[700, 8, 31], 5);
            let last = counts(&[4, 0, 5, 3, 2], &[12, 8, 900, 1, 700], 5);
            assert_eq!(less(&first, &counts(&[0, 1], &[8, 31], 5)), alone, "{subject:?}");
            assert_eq!(less(&last, &counts(&[4, 0, 5, 3], &[12, 8, 900, 1], 5)), alone, "{subject:?}");
            // For another record, or in another step, something else is dropped.
            assert_ne!(counts(&[2], &[701], 5), alone, "{subject:?}");
            assert_ne!(counts(&[2], &[700], 6), alone, "{subject:?}");
        }
    }
}

/// The same must hold for the reference, which adds no whole numbers but has the gradient of each sample.
#[test]
fn dropout_of_the_reference_follows_the_record() {
    for op in [Dropout::of_values(0.4), Dropout::of_channels(0.4)] {
        let graph = dropping(op);
        let (values, data) = (parameters(&graph), Data::new(&graph, 6, VIEWS));
        let reference = ReferenceExecutor::new(&graph, &values).unwrap();
        let of = |samples: &[usize], records: &[usize], place: usize| {
            reference.gradient(&Chosen::new(&data, samples, records, 5).batch(), place).unwrap()
        };
        let alone = of(&[2], &[700], 0);
        assert_eq!(of(&[2, 0, 1], &[700, 8, 31], 0), alone);
        assert_eq!(of(&[4, 0, 5, 3, 2], &[12, 8, 900, 1, 700], 4), alone);
        assert_ne!(of(&[2], &[701], 0), alone);
    }
}

/// With one view some channels are dropped, and their biases have no gradient. With many equal views of one record, no channel is dropped in
/// all of them.
#[test]
fn views_of_a_record_drop_each_for_itself() {
    let graph = dropping(Dropout::of_channels(0.4));
    let values = parameters(&graph);
    let reference = ReferenceExecutor::new(&graph, &values).unwrap();
    let bias = Layout::new(&graph).entries()[1].range.clone();
    let dropped = |views: usize, record: usize| {
        let (inputs, classes) = (vec![0.5; views * 48], vec![3; views]);
        let dropout = Some(DropoutSource { seed: 5, records: &[record] });
        let batch = Batch { views, dropout, ..Batch::new(&inputs, Targets::Classes(&classes)) };
        let gradient = reference.gradient(&batch, 0).unwrap().1;
        gradient[bias.clone()].iter().filter(|&&value| value == 0.0).count()
    };
    assert!((0..5).map(|record| dropped(1, record)).sum::<usize>() > 5);
    assert_eq!((0..5).map(|record| dropped(32, record)).sum::<usize>(), 0);
}
