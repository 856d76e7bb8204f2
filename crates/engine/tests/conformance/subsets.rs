//! Transformers on a subset of the tokens: as if the others were not there, to the last bit as far as those are concerned.

use dapple_engine::Clipping;
use dapple_graph::op::{Activation, AdaptiveAvgPool, Reshape};
use dapple_graph::zoo::{
    MvitSize, Norm, ResNet, TokenPooling, VisionTransformer, mvit_v2, mvit_v2_on_subsets, resnet,
    small_hybrid, vision_transformer, vision_transformer_on_subsets,
};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Init, Loss, Window};

use crate::common::{Data, parameters};
use crate::operations::all_agree;
use crate::subject::{Subject, apart, length};

const CLASSES: usize = 5;
const PATCH: usize = 8;
/// Two rows of four patches.
const IMAGE: [usize; 3] = [3, 2 * PATCH, 4 * PATCH];
/// A subset that makes an image of two rows of two.
const SUBSET: [usize; 4] = [1, 3, 4, 6];

fn model(pooling: TokenPooling) -> VisionTransformer {
    VisionTransformer { pooling, ..VisionTransformer::named("vit-ti-8").unwrap() }
}

/// The pixels of a patch in an image that is so many patches wide, channel by channel.
fn pixels(patch: usize, wide: usize, high: usize) -> impl Iterator<Item = usize> {
    let (row, column, width) = (patch / wide * PATCH, patch % wide * PATCH, wide * PATCH);
    (0..3 * PATCH).flat_map(move |line| {
        let (channel, line) = (line / PATCH, line % PATCH);
        let first = (channel * high * PATCH + row + line) * width + column;
        first..first + PATCH
    })
}

/// The sample of a subset of an image's patches.
fn sample(image: &[f32], subset: &[usize]) -> Vec<f32> {
    let share = |patch: usize| if subset.contains(&patch) { 1.0 / subset.len() as f32 } else { 0.0 };
    image.iter().copied().chain([1.0]).chain((0..8).map(share)).collect()
}

/// A graph on subsets, with a batch of one sample of it.
fn on_subset(pooling: TokenPooling, image: &[f32], subset: &[usize]) -> (Graph, Data) {
    let graph = vision_transformer_on_subsets(model(pooling), &IMAGE, CLASSES).unwrap();
    let mut data = Data::new(&graph, 1, 1);
    data.inputs = sample(image, subset);
    (graph, data)
}

/// The image of [`Data`] for the whole model.
fn image(pooling: TokenPooling) -> (Graph, Data) {
    let graph = vision_transformer(model(pooling), &IMAGE, CLASSES).unwrap();
    let data = Data::new(&graph, 1, 1);
    (graph, data)
}

/// On all patches the model is the whole model.
pub(crate) fn all_tokens_are_the_whole_model(subjects: &[Subject]) {
    for pooling in [TokenPooling::ClassToken, TokenPooling::Mean] {
        let (whole, data) = image(pooling);
        let (graph, all) = on_subset(pooling, &data.inputs, &[0, 1, 2, 3, 4, 5, 6, 7]);
        all_agree(subjects, "all tokens", &graph, &all.batch(), &Clipping::Off);
        let values = parameters(&whole);
        for subject in subjects {
            let want = subject.step(&whole, &values, &data.batch(), &Clipping::Off).gradient;
            let got = subject.step(&graph, &values, &all.batch(), &Clipping::Off).gradient;
            assert!(apart(&got, &want) <= 1e-5 * length(want.iter().copied()), "{subject:?}");
        }
    }
}

/// The oracle is the whole model on an image that is made of the patches of the subset alone, with their positions.
pub(crate) fn a_subset_is_as_if_alone(subjects: &[Subject]) {
    for pooling in [TokenPooling::ClassToken, TokenPooling::Mean] {
        let (whole, data) = image(pooling);
        let (graph, subset) = on_subset(pooling, &data.inputs, &SUBSET);
        let values = parameters(&whole);
        let alone = vision_transformer(model(pooling), &[3, 2 * PATCH, 2 * PATCH], CLASSES).unwrap();
        let mut of_subset = Data::new(&alone, 1, 1);
        for (place, &patch) in SUBSET.iter().enumerate() {
            for (to, from) in pixels(place, 2, 2).zip(pixels(patch, 4, 2)) {
                of_subset.inputs[to] = data.inputs[from];
            }
        }
        let mut own = parameters(&alone);
        for parameter in alone.parameters() {
            let id = alone.find_parameter(&parameter.name).unwrap();
            let all = values.get(whole.find_parameter(&parameter.name).unwrap());
            match parameter.name.as_str() {
                "pos_embed" => own.get_mut(id).copy_from_slice(&rows(all)),
                _ => own.get_mut(id).copy_from_slice(all),
            }
        }
        for subject in subjects {
            let want = subject.open(&alone).forward(&own, &of_subset.inputs);
            let got = subject.open(&graph).forward(&values, &subset.inputs);
            let size = want.iter().fold(0.0f64, |size, value| size.max(value.abs()));
            assert!(apart(&got, &want) <= 1e-6 * size.max(1.0), "{subject:?}: {got:?} and {want:?}");
            let want = subject.step(&alone, &own, &of_subset.batch(), &Clipping::Off);
            let got = subject.step(&graph, &values, &subset.batch(), &Clipping::Off);
            let got_own = gathered(&graph, &alone, &got.gradient);
            assert!(apart(&got_own, &want.gradient) <= 1e-5 * want.length(), "{subject:?}");
            assert!(
                (got.length() - want.length()).abs() <= 1e-5 * want.length(),
                "nothing else has a gradient"
            );
        }
    }
}

/// The rows of the class token and of the subset.
fn rows<T: Copy>(positions: &[T]) -> Vec<T> {
    let features = positions.len() / 9;
    let rows = std::iter::once(0).chain(SUBSET.iter().map(|patch| patch + 1));
    rows.flat_map(|row| positions[row * features..][..features].to_vec()).collect()
}

/// A gradient of the model on subsets in the order of the smaller model, without the positions of other patches.
fn gathered(graph: &Graph, alone: &Graph, gradient: &[f64]) -> Vec<f64> {
    let layout = dapple_engine::Layout::new(graph);
    let entry = |name: &str| {
        let position = layout.position(graph.find_parameter(name).unwrap()).unwrap();
        &gradient[layout.entries()[position].range.clone()]
    };
    let of = |name: &str| if name == "pos_embed" { rows(entry(name)) } else { entry(name).to_vec() };
    alone.parameters().iter().flat_map(|parameter| of(&parameter.name)).collect()
}

/// Whatever a patch outside the subset shows, no bit of what is said or added changes.
pub(crate) fn other_tokens_change_no_bit(subjects: &[Subject]) {
    for pooling in [TokenPooling::ClassToken, TokenPooling::Mean] {
        let (whole, data) = image(pooling);
        let values = parameters(&whole);
        let mut other = data.inputs.clone();
        for patch in (0..8).filter(|patch| !SUBSET.contains(patch)) {
            pixels(patch, 4, 2).for_each(|pixel| other[pixel] = 1.0 - 3.0 * other[pixel]);
        }
        let ((graph, one), (_, other)) =
            (on_subset(pooling, &data.inputs, &SUBSET), on_subset(pooling, &other, &SUBSET));
        for subject in subjects {
            let said = |data: &Data| subject.open(&graph).forward(&values, &data.inputs);
            assert_eq!(said(&one), said(&other), "{subject:?}");
            for clipping in [Clipping::Off, Clipping::Flat { max_norm: 0.5 }] {
                let added = |data: &Data| subject.step(&graph, &values, &data.batch(), &clipping);
                assert_eq!(added(&one), added(&other), "{subject:?}");
            }
        }
    }
}

/// Models whose samples tell which places count, each beside the whole model, with the number of places.
fn models_of_places() -> Vec<(Graph, Graph, usize)> {
    let clip = [3, 4, 32, 32];
    let mvit = mvit_v2(MvitSize::Small, &clip, CLASSES).unwrap();
    let mut models = vec![(mvit, mvit_v2_on_subsets(MvitSize::Small, &clip, CLASSES).unwrap(), 2 * 8 * 8)];
    for whole in [
        resnet(ResNet::R18, &[3, 64, 96], CLASSES, Norm::Group(32)).unwrap(),
        small_hybrid(&[3, 16, 16], CLASSES).unwrap(),
    ] {
        let places = whole.pooled_grid().unwrap().iter().product();
        let some = whole.over_cells().unwrap();
        models.push((whole, some, places));
    }
    models
}

/// What a model is given of a view of which these places count.
fn with_places(view: &[f32], count: usize, counts: impl Fn(usize) -> bool) -> Vec<f32> {
    let number = (0..count).filter(|&place| counts(place)).count();
    let share = |place| if counts(place) { 1.0 / number as f32 } else { 0.0 };
    view.iter().copied().chain([1.0]).chain((0..count).map(share)).collect()
}

/// If every place counts, the model is the whole model.
pub(crate) fn all_patches_and_cells_are_the_whole_model(subjects: &[Subject]) {
    for (whole, graph, count) in models_of_places() {
        let data = Data::new(&whole, 1, 1);
        let mut all = Data::new(&graph, 1, 1);
        all.inputs = with_places(&data.inputs, count, |_| true);
        let values = parameters(&whole);
        for subject in subjects {
            let want = subject.step(&whole, &values, &data.batch(), &Clipping::Off).gradient;
            let got = subject.step(&graph, &values, &all.batch(), &Clipping::Off).gradient;
            assert!(apart(&got, &want) <= 1e-5 * length(want.iter().copied()), "{subject:?}");
        }
    }
}

/// If some do, executors agree with the oracle.
pub(crate) fn some_patches_and_cells_agree(subjects: &[Subject]) {
    for (whole, graph, count) in models_of_places() {
        let data = Data::new(&whole, 1, 1);
        let mut some = Data::new(&graph, 1, 1);
        some.inputs = with_places(&data.inputs, count, |place| place % 3 == 1);
        all_agree(subjects, "some places", &graph, &some.batch(), &Clipping::Flat { max_norm: 0.5 });
    }
}

/// Where the features of a place depend on a few pixels alone, pixels of places that do not count change no bit.
pub(crate) fn other_cells_change_no_bit(subjects: &[Subject]) {
    let mut b = GraphBuilder::new(&[2, 4, 6]);
    let input = b.input();
    let x = b.conv("patches", input, ConvSpec::new(5, Window::square(2).stride(2)).bias()).unwrap();
    let x = b.add("positive", Activation::Gelu, &[x]).unwrap();
    let x = b.add("mean", AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
    let x = b.add("features", Reshape(vec![5]), &[x]).unwrap();
    let x = b.linear("head", x, CLASSES, Init::Normal(0.1), Init::Constant(0.0)).unwrap();
    let graph = b.finish(x, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap().over_cells().unwrap();
    let values = parameters(&graph);
    let one = Data::new(&graph, 1, 1);
    let counts = |cell: usize| cell == 1 || cell == 3;
    let view = |other: bool| -> Vec<f32> {
        let shown = |(at, &value): (usize, &f32)| {
            let (x, y) = (at % 6, at / 6 % 4);
            if other && !counts(y / 2 * 3 + x / 2) { 3.0 - 2.0 * value } else { value }
        };
        one.inputs[..2 * 4 * 6].iter().enumerate().map(shown).collect()
    };
    let of = |other: bool| {
        let mut data = Data::new(&graph, 1, 1);
        data.inputs = with_places(&view(other), 6, counts);
        data
    };
    for subject in subjects {
        let said = |data: &Data| subject.open(&graph).forward(&values, &data.inputs);
        assert_eq!(said(&of(false)), said(&of(true)), "{subject:?}");
        let added = |data: &Data| subject.step(&graph, &values, &data.batch(), &Clipping::Off);
        assert_eq!(added(&of(false)), added(&of(true)), "{subject:?}");
    }
}
