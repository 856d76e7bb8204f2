//! `[user]`: how a user trains in a round.

use super::declare::section;

section! {
    /// `[user]`: how a user trains in a round, for the `user` relation.
    pub struct UserSpec = "user" {
        local_steps: u64 =
            ("the number of steps that a user takes from the round's weights", "3")
                .or("1");
        /// One step alone has none: its update is the gradient itself.
        local_learning_rate: f64 =
            ("the learning rate of a user's own steps, where there are several", "0.05");
        local_batch: u64 =
            ("the number of the user's records that each of these steps sees", "8")
                .or("all of them");
        max_records: u64 =
            ("the most records of a user that a round sees, drawn anew in each round", "32")
                .or("all of them");
    }
}
