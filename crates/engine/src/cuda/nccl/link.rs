//! A card among those of other processes.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::super::device::Device;
use super::super::error::{CudaError, call};
use super::library::{Handle, Nccl, UniqueId};
use super::{Communicators, PATIENCE, Summed};

/// What the error of a link that cannot be made calls it.
const JOIN: &str = "joining the cards of other ranks";

/// A handle on its way from the thread that made it.
struct JoinedHandle(Handle);

// SAFETY: a communicator may be used from any thread, one at a time, and the thread that made it hands it over.
unsafe impl Send for JoinedHandle {}

/// The place of this process's card among those of other processes, whose sums NCCL adds up. The cards are joined when the first sum is added.
#[derive(Debug)]
pub struct CudaLink {
    id: [u8; 128],
    rank: usize,
    ranks: usize,
    patience: Duration,
    joined: Option<Communicators>,
    /// Whether the cards could not be joined, which cannot be tried again under the same identifier.
    failed: bool,
}

impl CudaLink {
    /// Whether NCCL is found.
    pub fn is_possible() -> bool {
        Nccl::get().is_ok()
    }

    /// An identifier by which processes find each other. One of them makes it and tells the others.
    ///
    /// # Errors
    /// If NCCL is not found, or fails.
    pub fn identifier() -> Result<[u8; 128], CudaError> {
        let nccl = Nccl::get()?;
        let mut id = UniqueId([0; 128]);
        // SAFETY: the call writes one identifier.
        nccl.checked(JOIN, unsafe { (nccl.get_unique_id)(&mut id) })?;
        Ok(id.0)
    }

    /// The place `rank` of `ranks` processes that were told this identifier, each with a card of its own.
    pub fn new(id: [u8; 128], rank: usize, ranks: usize) -> Self {
        Self { id, rank, ranks, patience: PATIENCE, joined: None, failed: false }
    }

    /// Changes how long a sum, or the joining before it, may take.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Replaces a card's numbers by the sum over the cards of all processes, which has the same bits on each, and waits for it; all processes must
    /// call this, and the card must have finished what it did before.
    ///
    /// A process that fails, or is gone, would leave the others waiting. So the wait has an end, after which the sum is called off here, and no other
    /// can be added.
    pub(crate) fn add(&mut self, device: &Device, numbers: Summed<'_>) -> Result<(), CudaError> {
        if self.joined.is_none() {
            if std::mem::replace(&mut self.failed, true) {
                return Err(CudaError::Call { call: JOIN, reason: "an earlier attempt failed".into() });
            }
            self.joined = Some(self.join(device)?);
        }
        let patience = self.patience;
        let Some(joined) = &mut self.joined else {
            return Err(CudaError::Call { call: JOIN, reason: "there is no link".into() });
        };
        joined.patience = patience;
        joined.all_reduce(&[(device, numbers)])
    }

    /// Joins the other cards, which waits for all of them. NCCL's wait has no end of its own, so another thread does it; one that waits in vain is left
    /// behind, as the process that it belongs to is about to end.
    fn join(&self, device: &Device) -> Result<Communicators, CudaError> {
        let nccl = Nccl::get()?;
        let (id, rank, ranks) = (UniqueId(self.id), self.rank as i32, self.ranks as i32);
        let context = device.context.clone();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut handle = std::ptr::null_mut();
            let bound = call(JOIN, context.bind_to_thread());
            let joined = bound.and_then(|()| {
                // SAFETY: the call writes one communicator, for the card that the thread has just chosen.
                nccl.checked(JOIN, unsafe { (nccl.comm_init_rank)(&mut handle, ranks, id, rank) })
            });
            // Whoever waited in vain is no longer there.
            let _ = sender.send(joined.map(|()| JoinedHandle(handle)));
        });
        let late = |error: RecvTimeoutError| {
            let reason = match error {
                RecvTimeoutError::Timeout => "a card does not answer",
                RecvTimeoutError::Disconnected => "its thread ended early",
            };
            CudaError::Call { call: JOIN, reason: reason.into() }
        };
        let JoinedHandle(handle) = receiver.recv_timeout(self.patience).map_err(late)??;
        let context = Some(device.context.clone());
        Ok(Communicators { nccl, handles: vec![handle], patience: self.patience, _context: context })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_library_there_is_no_identifier() {
        match CudaLink::is_possible() {
            true => assert_ne!(CudaLink::identifier().unwrap(), [0; 128]),
            false => {
                assert_eq!(CudaLink::identifier().unwrap_err(), CudaError::Library { library: "NCCL" });
            }
        }
    }
}
