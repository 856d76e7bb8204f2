//! Several processes that a launcher started, of which the first has the run.

use std::sync::Arc;

use dapple_train::{Launch, MpiError, RankGroup, Request};

use crate::failure::Failure;
use crate::interrupt;

/// Joins the other processes of the launcher that started this one; `None` if it was started alone.
pub(crate) fn join() -> Result<Option<Arc<RankGroup>>, Failure> {
    Ok(RankGroup::join(told)?)
}

/// Refuses to do as one of several processes what each would do by itself. The first of them says so, for all.
pub(crate) fn refuse_others() -> Result<(), Failure> {
    let Some(launch) = Launch::detect().filter(Launch::tells_of_others) else { return Ok(()) };
    if launch.rank.is_some_and(|rank| rank > 0) {
        return Err(Failure::Followed);
    }
    let several = launch.size.map_or_else(|| "several".to_owned(), |size| size.to_string());
    Err(Failure::request(
        format!("{several} processes were started, and each would do all of this by itself"),
        "run it without a launcher; only `dapple train` and `dapple resume` share their work",
    ))
}

/// Tells why all processes end, while there is still time to.
fn told(error: &MpiError) {
    let hint = error
        .hint()
        .unwrap_or("what was spent is in the run's ledger: resume the run, with as many ranks as you like");
    Failure::run(error.to_string()).with_hint(hint).report();
}

/// What a rank was asked for, once it is known that all ranks understood what they were asked for. The first rank that did not tells why, if it
/// is the first of all; any other leaves that to the first.
pub(crate) fn agreed<T>(ranks: Option<&RankGroup>, own: Result<T, Failure>) -> Result<T, Failure> {
    let Some(ranks) = ranks else { return own };
    let said = own.as_ref().map_err(Failure::message);
    match (ranks.agree(&said), own) {
        (Ok(()), own) => own,
        (Err(_), _) if !ranks.is_first() => Err(Failure::Followed),
        (Err(_), Err(failure)) => Err(failure),
        (Err(other), Ok(_)) => Err(Failure::request(
            other.to_string(),
            "give all ranks the same plan, with the files that it names",
        )),
    }
}

/// Takes part in the run of the first rank. An interrupt is that rank's to heed; a second one ends this process.
pub(crate) fn follow(ranks: &Arc<RankGroup>, request: Option<&Request>) -> Result<(), Failure> {
    interrupt::ask_first();
    dapple_train::follow(ranks, request);
    Ok(())
}
