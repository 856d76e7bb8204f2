//! A split model takes no more memory than the whole one, by bytes allocated.
#![allow(unsafe_code, clippy::unwrap_used, reason = "counting allocations takes an allocator")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{Data, parameters};
use dapple_engine::{Batch, Clipping, CpuExecutor, CpuOptions};
use dapple_graph::{Graph, zoo};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn take(bytes: usize) {
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(held, Relaxed);
}

// SAFETY: every request goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new memory may be there at the same time.
        take(size);
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held at once, beyond those before, while a model takes a step in which each of so many submodels has some samples.
fn most_bytes(graph: &Graph, submodels: usize, samples: usize) -> usize {
    let (parameters, data) = (parameters(graph), Data::new(graph, samples, 1));
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let parts = match submodels {
        1 => Vec::new(),
        _ => {
            let blocks = graph.blocks_named(&["layer3.1..layer3.22".to_owned()]).unwrap();
            graph.submodels(&blocks, submodels).unwrap()
        }
    };
    let options = CpuOptions { threads: 2, ..CpuOptions::default() };
    let mut executor = CpuExecutor::with_submodels(graph, parts, options).unwrap();
    let rule = common::rule(&Clipping::Flat { max_norm: 1.0 }, executor.layout());
    let mut sum = executor.gradient_sum();
    let mut loaded = executor.load(&parameters).unwrap();
    for part in 0..submodels {
        let submodel = (submodels > 1).then_some(part);
        loaded.clipped_sum(&Batch { submodel, ..data.batch() }, &rule, &mut sum).unwrap();
    }
    loaded.gradient(sum).unwrap();
    MOST.load(Relaxed) - before
}

/// Samples of submodels are smaller, so more of them share the memory that those of the whole model have. What is left to differ is what the programs of
/// the submodels keep.
#[test]
fn submodels_take_no_more_memory_than_the_whole_model() {
    let graph = zoo::resnet(zoo::ResNet::R101, &[3, 64, 64], 10, zoo::Norm::Group(32)).unwrap();
    let whole = most_bytes(&graph, 1, 16);
    for submodels in [3, 8] {
        let split = most_bytes(&graph, submodels, 16);
        assert!(split <= whole, "{submodels} submodels: {split} bytes, where the whole model takes {whole}");
    }
}
