//! Chooses the schedule of a graph by the memory that samples take.

use super::CpuOptions;
use super::gemm::Gemm;
use super::schedule::{Schedule, SchedulePurpose};
use super::share::{Bytes, SampleSharing};
use super::step::{CpuStep, CpuSteps};
use crate::layout::Layout;

/// A schedule, and the memory it takes.
#[derive(Debug)]
pub(crate) struct SchedulePlan {
    pub(crate) schedule: Schedule,
    pub(crate) bytes: Bytes,
    /// Steps whose weight gradients are summed after the backward pass instead of being written down for each sample.
    pub(crate) deferred: Vec<bool>,
}

impl SchedulePlan {
    pub(crate) fn inference(steps: &CpuSteps, options: &CpuOptions) -> Self {
        let deferred = vec![false; steps.steps.len()];
        let bytes = |schedule: &Schedule| schedule.bytes(1);
        Self::by_group(steps, options, (false, false), 1, deferred, bytes)
    }

    /// The plan of a training step, which computes gradients of `trained` numbers. If a sample takes more than `limit` bytes, activations are
    /// computed twice, unless the options say how much memory samples may take.
    pub(crate) fn training(
        steps: &CpuSteps,
        (layout, trained): (&Layout, usize),
        views: usize,
        options: &CpuOptions,
        limit: usize,
    ) -> Self {
        let plan = |checkpoints: bool| {
            let deferred = deferred(steps, layout, views, checkpoints);
            let weights = steps.steps.iter().zip(&deferred).filter(|(_, deferred)| **deferred);
            let unwritten: usize =
                weights.filter_map(|(step, _)| step.kernel.product().map(Gemm::weight_len)).sum();
            let bytes = |schedule: &Schedule| {
                let Bytes { worker, sample } = schedule.bytes(views);
                Bytes { worker, sample: sample + 4 * trained.saturating_sub(unwritten) }
            };
            Self::by_group(steps, options, (true, checkpoints), views, deferred, bytes)
        };
        let whole = plan(options.checkpoints);
        let too_large = whole.bytes.worker + whole.bytes.sample > limit;
        if too_large && !options.checkpoints && options.memory == 0 { plan(true) } else { whole }
    }

    /// The schedule for groups of items, or if a worker would hold one item at a time, the schedule for single items.
    fn by_group(
        steps: &CpuSteps,
        options: &CpuOptions,
        (training, checkpoints): (bool, bool),
        views: usize,
        deferred: Vec<bool>,
        bytes: impl Fn(&Schedule) -> Bytes,
    ) -> Self {
        let schedule = |single: bool| {
            Schedule::new(steps, &SchedulePurpose { training, checkpoints, single, deferred: &deferred })
        };
        let groups = schedule(false);
        let single = SampleSharing::new(options, bytes(&groups)).group() * views == 1;
        let schedule = if single { schedule(true) } else { groups };
        Self { bytes: bytes(&schedule), schedule, deferred }
    }
}

fn deferred(steps: &CpuSteps, layout: &Layout, views: usize, checkpoints: bool) -> Vec<bool> {
    let of = |step: &CpuStep| {
        step.kernel.product().is_some_and(|gemm| {
            let trains = layout.position(gemm.weight).is_some() && step.needs_gradient;
            // With checkpoints memory comes first, so a layer is deferred only if it keeps less than its gradient would take.
            let kept = gemm.rows_in * gemm.channels + gemm.rows_out * gemm.out;
            trains && gemm.prefers_ghost(views) && (!checkpoints || kept < gemm.weight_len())
        })
    };
    steps.steps.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::schedule::ActionKind;
    use super::super::step::lower;
    use super::*;
    use dapple_graph::zoo::{Norm, ResNet, psp_net, resnet};

    #[test]
    fn checkpoints_save_memory() {
        let classifier = resnet(ResNet::R50, &[3, 224, 224], 10, Norm::Group(32)).unwrap();
        // In this one, values skip parts of the network and must be kept.
        let pyramid = psp_net(ResNet::R50, &[3, 257, 257], 19, Norm::Group(32)).unwrap();
        for graph in [classifier, pyramid] {
            let layout = Layout::new(&graph);
            let steps = lower(&graph, true);
            let bytes = |checkpoints| {
                let options = CpuOptions { threads: 1, group: 1, checkpoints, ..CpuOptions::default() };
                SchedulePlan::training(&steps, (&layout, layout.len()), 1, &options, usize::MAX).bytes.sample
            };
            let (all, some) = (bytes(false), bytes(true));
            assert!(3 * some < 2 * all, "{some} of {all}");
        }
    }

    #[test]
    fn samples_beyond_the_limit_are_checkpointed_unless_memory_is_set() {
        let graph = resnet(ResNet::R50, &[3, 96, 96], 10, Norm::Group(32)).unwrap();
        let (layout, steps) = (Layout::new(&graph), lower(&graph, true));
        let options = CpuOptions { threads: 2, ..CpuOptions::default() };
        let plan =
            |options, limit| SchedulePlan::training(&steps, (&layout, layout.len()), 1, &options, limit);
        let forward = |plan: &SchedulePlan| {
            plan.schedule.actions.iter().filter(|action| action.kind == ActionKind::Forward).count()
        };
        let whole = plan(options, usize::MAX);
        let needed = whole.bytes.worker + whole.bytes.sample;
        assert_eq!(forward(&whole), steps.steps.len());
        assert_eq!(forward(&plan(options, needed)), steps.steps.len());
        let checkpointed = plan(options, needed - 1);
        assert!(forward(&checkpointed) > steps.steps.len());
        assert!(checkpointed.bytes.sample < whole.bytes.sample);
        assert_eq!(
            forward(&checkpointed),
            forward(&plan(CpuOptions { checkpoints: true, ..options }, usize::MAX))
        );
        // Whoever sets the memory also decides whether activations are computed twice.
        assert_eq!(forward(&plan(CpuOptions { memory: 1, ..options }, needed - 1)), steps.steps.len());
    }
}
