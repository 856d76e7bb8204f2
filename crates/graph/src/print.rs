//! Prints a graph as a table with one line for each node.

use std::fmt;

use crate::graph::Graph;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.nodes().iter().map(|node| node.name.len()).max().unwrap_or(0);
        for node in self.nodes() {
            let inputs: Vec<&str> = node.inputs.iter().map(|&id| self.node(id).name.as_str()).collect();
            let (mut trained, mut frozen) = (0, 0);
            for id in node.op.parameters() {
                let parameter = self.parameter(id);
                *(if parameter.trainable { &mut trained } else { &mut frozen }) += parameter.len();
            }
            let shape: Vec<String> = node.shape.iter().map(ToString::to_string).collect();
            write!(f, "{:width$}  {:<15}  {:<14}", node.name, node.op.name(), shape.join("x"))?;
            if trained > 0 {
                write!(f, "  {trained} parameters")?;
            }
            if frozen > 0 {
                write!(f, "  {frozen} frozen")?;
            }
            writeln!(f, "  <- {}", if inputs.is_empty() { "-".to_owned() } else { inputs.join(", ") })?;
        }
        for auxiliary in self.auxiliary() {
            let name = &self.node(auxiliary.output).name;
            writeln!(f, "while training, {} times the loss of {name}", auxiliary.weight)?;
        }
        let total: usize = self.parameters().iter().map(crate::Parameter::len).sum();
        writeln!(
            f,
            "{} nodes, {total} values, {} of them trainable",
            self.nodes().len(),
            self.trainable_len()
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::op::Activation;
    use crate::{ConvSpec, GraphBuilder, Loss, Window};

    #[test]
    fn one_line_per_node() {
        let mut builder = GraphBuilder::new(&[3, 8, 8]);
        let x = builder.conv("conv", builder.input(), ConvSpec::new(4, Window::square(3)).bias()).unwrap();
        builder.auxiliary(x, 0.4);
        let x = builder.add("relu", Activation::Relu, &[x]).unwrap();
        let text = builder.finish(x, Loss::SquaredError).unwrap().to_string();
        assert_eq!(
            text,
            "input  Input            3x8x8           <- -\n\
             conv   Conv2d           4x6x6           112 parameters  <- input\n\
             relu   ReLU             4x6x6           <- conv\n\
             while training, 0.4 times the loss of conv\n\
             3 nodes, 112 values, 112 of them trainable\n"
        );
    }
}
