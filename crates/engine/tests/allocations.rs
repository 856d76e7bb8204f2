//! A warmed-up step allocates nothing but the losses and norms that it returns.
#![allow(unsafe_code, clippy::unwrap_used, reason = "counting allocations takes an allocator")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use common::{Data, parameters};
use dapple_engine::{Clipping, CpuExecutor, CpuOptions};
use dapple_graph::{Graph, zoo};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

fn count(bytes: usize) {
    if COUNTS.load(Relaxed) {
        ALLOCATIONS.fetch_add(1, Relaxed);
        LARGEST.fetch_max(bytes, Relaxed);
    }
}

// SAFETY: every request goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a few steps on the same batch allocate, after as many steps to warm up, and the most bytes that they allocate at once.
fn allocations(executor: &mut CpuExecutor, graph: &Graph, samples: usize, views: usize) -> (usize, usize) {
    let parameters = parameters(graph);
    let data = Data::new(graph, samples, views);
    let rule = common::rule(&Clipping::Flat { max_norm: 1.0 }, executor.layout());
    let mut gradient = Vec::new();
    for counts in [false, true] {
        COUNTS.store(counts, Relaxed);
        for _ in 0..STEPS {
            let mut sum = executor.gradient_sum_in(std::mem::take(&mut gradient));
            let mut loaded = executor.load(&parameters).unwrap();
            loaded.clipped_sum(&data.batch(), &rule, &mut sum).unwrap();
            gradient = loaded.gradient(sum).unwrap();
        }
    }
    COUNTS.store(false, Relaxed);
    (ALLOCATIONS.swap(0, Relaxed), LARGEST.swap(0, Relaxed))
}

const STEPS: usize = 4;

#[test]
fn a_step_allocates_only_its_statistics() {
    let mut graphs = common::specimens();
    graphs.push(("wide resnet", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 8, 8], 4).unwrap()));
    // Executors are kept to the end, because threads that stop would free their memory through queues of their own.
    let mut executors = Vec::new();
    for (name, graph) in graphs {
        for (threads, samples, views) in [(1, 3, 1), (2, 5, 2), (4, 2, 1)] {
            let options = CpuOptions { threads, ..CpuOptions::default() };
            executors.push(CpuExecutor::new(&graph, options).unwrap());
            let executor = executors.last_mut().unwrap();
            let (count, largest) = allocations(executor, &graph, samples, views);
            // These are the losses and norms, and what the pool's threads take if they start late or need a new block for their queues.
            let (returned, pool) = (2 * STEPS, 8 * threads);
            assert!(count <= returned + pool, "{name}, {threads} threads: {count} allocations");
            assert!(largest <= 4096, "{name}, {threads} threads: {largest} bytes");
        }
    }
}
