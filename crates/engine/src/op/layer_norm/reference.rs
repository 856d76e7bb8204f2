//! How the reference normalises rows of features: it puts the values of each row side by side, normalises them, and puts them back.

use dapple_graph::op::LayerNorm;

use super::NormRows;
use crate::reference::{Gradients, Normalised, ReferenceContext, ReferenceOperation, Tensor};

impl ReferenceOperation for LayerNorm {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let rows = NormRows::new(self.over, &y.shape);
        let features = rows.features;
        let normalised = Normalised::in_runs(&rows.gather(inputs[0]), features, self.eps, self.centred);
        let values = normalised.affine(self.affine, |index| index % features, context);
        y.data = rows.scatter(&values);
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let rows = NormRows::new(self.over, &g.shape);
        let features = rows.features;
        let normalised = Normalised::in_runs(&rows.gather(inputs[0]), features, self.eps, self.centred);
        let mut gradients =
            normalised.backward(self.affine, |index| index % features, context, &rows.gather(g));
        for dx in &mut gradients.inputs {
            dx.data = rows.scatter(&dx.data);
        }
        gradients
    }
}

impl NormRows {
    /// Where a feature of a row lies among a sample's values.
    fn place(self, row: usize, feature: usize) -> usize {
        (row / self.apart * self.features + feature) * self.apart + row % self.apart
    }

    /// Puts the values in order, row after row.
    fn gather(self, x: &Tensor) -> Tensor {
        let rows = (0..self.rows).flat_map(|row| (0..self.features).map(move |feature| (row, feature)));
        Tensor {
            shape: x.shape.clone(),
            data: rows.map(|(row, feature)| x.data[self.place(row, feature)]).collect(),
        }
    }

    /// Puts the values back where they were.
    fn scatter(self, rows: &[f64]) -> Vec<f64> {
        let mut values = vec![0.0; rows.len()];
        for (index, value) in rows.iter().enumerate() {
            values[self.place(index / self.features, index % self.features)] = *value;
        }
        values
    }
}
