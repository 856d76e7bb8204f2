//! Graphs over tokens, in a row or in grids.

use dapple_graph::op::{Activation, Attention, Concat, Mul, Reshape, Slice};
use dapple_graph::{Graph, GraphBuilder, NodeId, Window};
use proptest::prelude::*;

use super::{Case, runs};
use crate::common::{CLASSES, head, linear};

/// Attention of so many queries, and keys if they are not packed, in heads of a width.
fn attending((queries, keys): (usize, usize), (heads, width): (usize, usize), packed: bool) -> Graph {
    let features = heads * width;
    let mut b = GraphBuilder::new(&[queries.max(keys), 5]);
    let input = b.input();
    if packed {
        let x = linear(&mut b, "parts", input, 3 * features).unwrap();
        let x = b.add("attention", Attention { heads }, &[x]).unwrap();
        return head(b, x, CLASSES).unwrap();
    }
    let mut side = |name: &str, end: usize| {
        let x = linear(&mut b, name, input, features).unwrap();
        b.add(&format!("{name}.cut"), Slice { axis: 0, start: 0, end }, &[x]).unwrap()
    };
    let (query, key, value) = (side("query", queries), side("key", keys), side("value", keys));
    let x = b.add("attention", Attention { heads }, &[query, key, value]).unwrap();
    head(b, x, CLASSES).unwrap()
}

pub(crate) fn attention() -> impl Strategy<Value = Case> {
    let tokens = (1usize..20, 1usize..20);
    (tokens, (1usize..4, 1usize..9), any::<bool>(), runs())
        .prop_map(|(tokens, heads, packed, run)| Case::new(attending(tokens, heads, packed), run))
}

/// Draws heads of widths for which a card has tiles, and for one width that is too large, with more tokens than a tile or two hold.
pub(crate) fn attention_in_tiles() -> impl Strategy<Value = Case> {
    let tokens = (1usize..150, 1usize..150);
    (tokens, (1usize..3, 1usize..18), any::<bool>(), runs()).prop_map(
        |(tokens, (heads, eighths), packed, run)| {
            Case::new(attending(tokens, (heads, 8 * eighths), packed), run)
        },
    )
}

/// Draws queries, keys and values that are pooled with different strides, and tables that have as many rows as there are distances, or not.
pub(crate) fn pooled_attention() -> impl Strategy<Value = Case> {
    pooled(false)
}

/// The same, to those keys alone whose numbers are not zero. Numbers are what the input says in its first column.
pub(crate) fn pooled_attention_to_some_keys() -> impl Strategy<Value = Case> {
    pooled(true)
}

fn pooled(numbered: bool) -> impl Strategy<Value = Case> {
    let window = (1usize..4, 1usize..4, 1usize..3);
    let rows = prop::option::of(prop::array::uniform3(1usize..9));
    ((1usize..3, 1usize..6, 1usize..6), (1usize..4, 1usize..9), window, 1usize..4, rows, runs()).prop_map(
        move |(
            (frames, height, width),
            (heads, features),
            (kernel, stride, dilation),
            key_stride,
            rows,
            run,
        )| {
            let grid = [frames, height, width];
            let mut b = GraphBuilder::new(&[1 + frames * height * width, 4]);
            let mut pooled = |name: &str, stride: usize, kernel: usize, dilation: usize| {
                let input = b.input();
                let x = linear(&mut b, name, input, heads * features).unwrap();
                let padding = dilation * (kernel / 2);
                let mut window = Window::new(3, kernel).padding(padding).dilation(dilation);
                window.stride = vec![1, stride, stride];
                let made: [usize; 3] = window.output(&grid).unwrap().try_into().unwrap();
                (b.token_conv(&format!("{name}.pool"), x, grid, window, heads).unwrap(), made)
            };
            let (query, queries) = pooled("query", stride, kernel, dilation);
            let (key, keys) = pooled("key", key_stride, 3, 1);
            let (value, _) = pooled("value", key_stride, 3, 1);
            let distances = [0, 1, 2].map(|axis: usize| 2 * queries[axis].max(keys[axis]) - 1);
            let mut parts = vec![query, key, value];
            if numbered {
                parts.push(numbers(&mut b, 1 + keys.iter().product::<usize>()));
            }
            let rows = rows.unwrap_or(distances);
            let x = b.pooled_attention("attention", &parts, heads, [queries, keys], rows).unwrap();
            Case::new(head(b, x, CLASSES).unwrap(), run)
        },
    )
}

/// A number for each of so many tokens, about half of which are zero, but never the first.
fn numbers(b: &mut GraphBuilder, count: usize) -> NodeId {
    let input = b.input();
    let x = b.add("numbers.column", Slice { axis: 1, start: 0, end: 1 }, &[input]).unwrap();
    let x = b.add("numbers.rows", Slice { axis: 0, start: 0, end: count }, &[x]).unwrap();
    let x = b.add("numbers.flat", Reshape(vec![count]), &[x]).unwrap();
    let first = b.add("numbers.first", Slice { axis: 0, start: 0, end: 1 }, &[x]).unwrap();
    let first = b.add("numbers.square", Mul, &[first, first]).unwrap();
    let rest = b.add("numbers.rest", Slice { axis: 0, start: 1, end: count }, &[x]).unwrap();
    let rest = b.add("numbers.half", Activation::Relu, &[rest]).unwrap();
    b.add("numbers", Concat { axis: 0 }, &[first, rest]).unwrap()
}
