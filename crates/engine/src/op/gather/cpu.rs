//! How the CPU picks rows.

use dapple_graph::op::Gather;

use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode};
use crate::cpu::{Transfer, TransferKernel};

impl CpuOperation for Gather {
    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (from, to) = (node.inputs[0].strides(), node.form.strides());
        let row = |(place, &row): (usize, &usize)| {
            let (source, target) = ((row * from[0], from[1..].to_vec()), (place * to[0], to[1..].to_vec()));
            Transfer::new(&node.form.shape[1..], source, target)
        };
        Box::new(TransferKernel::new(vec![self.0.iter().enumerate().map(row).collect()]))
    }
}
