//! Kernels of operations whose two passes read the same table.

/// Declares a kernel that knows where its table lies and runs the two named kernels on it. The table must be made from the shapes of the
/// node's input and of its own values.
macro_rules! tabled_kernel {
    ($name:ident: $forward:ident, $backward:ident) => {
        #[derive(Debug)]
        struct $name(usize);

        impl $crate::cuda::operation::CudaKernel for $name {
            fn forward(
                &self,
                run: &mut $crate::cuda::run::CardRun<'_>,
                node: usize,
            ) -> Result<(), $crate::cuda::error::CudaError> {
                let (x, y, table) = (run.read(node, 0), run.value(node), run.table(self.0));
                let forward = $crate::cuda::kernels::$forward { x, y, table, n: run.items() * run.len(node) };
                // SAFETY: the table was made from the shapes of the input and of this node.
                unsafe { forward.launch(run.device) }
            }

            fn backward(
                &self,
                run: &mut $crate::cuda::run::CardRun<'_>,
                node: usize,
                _parameters: &mut $crate::cuda::backward::CardParameterGradients<'_>,
            ) -> Result<(), $crate::cuda::error::CudaError> {
                let Some(target) = run.target(node, 0) else { return Ok(()) };
                let backward = $crate::cuda::kernels::$backward {
                    g: run.gradient(node),
                    dx: target.values,
                    table: run.table(self.0),
                    n: run.items() * run.input_len(node, 0),
                    accumulate: target.accumulate,
                };
                // SAFETY: as in the forward pass.
                unsafe { backward.launch(run.device) }
            }
        }
    };
}
pub(crate) use tabled_kernel;
