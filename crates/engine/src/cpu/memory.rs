//! Which values share a buffer.

use dapple_graph::plan::{Lifetime, MemoryPlan};

/// Gives every value a buffer: the largest first, each into the first buffer that is free for all its life. With every value known
/// beforehand this wastes less than taking them in the order of time.
pub(crate) fn assign(values: &[Lifetime]) -> MemoryPlan {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&value| (std::cmp::Reverse(values[value].len), values[value].first));
    let mut buffers = Vec::new();
    let mut tenants: Vec<Vec<Lifetime>> = Vec::new();
    let mut assignment = vec![0; values.len()];
    for value in order {
        let life = values[value];
        let apart = |other: &Lifetime| other.last < life.first || life.last < other.first;
        let free = tenants.iter().position(|tenants| tenants.iter().all(apart));
        let buffer = free.unwrap_or_else(|| {
            buffers.push(life.len);
            tenants.push(Vec::new());
            buffers.len() - 1
        });
        tenants[buffer].push(life);
        assignment[value] = buffer;
    }
    MemoryPlan { buffers, assignment }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lives() -> impl Strategy<Value = Vec<Lifetime>> {
        let life = (1usize..100, 0usize..40, 0usize..20);
        prop::collection::vec(
            life.prop_map(|(len, first, more)| Lifetime { len, first, last: first + more }),
            0..40,
        )
    }

    proptest! {
        #[test]
        fn no_two_values_meet_and_every_value_fits(values in lives()) {
            let plan = assign(&values);
            for (a, &buffer) in plan.assignment.iter().enumerate() {
                prop_assert!(values[a].len <= plan.buffers[buffer]);
                for b in 0..a {
                    let apart = values[a].last < values[b].first || values[b].last < values[a].first;
                    prop_assert!(apart || plan.assignment[b] != buffer);
                }
            }
        }
    }
}
