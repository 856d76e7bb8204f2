//! Sums over several cards by NCCL, which is looked for when a group is made.

mod library;
mod link;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;

use super::device::Device;
use super::error::{CudaError, call};
use super::slice::DeviceSlice;
use library::{FLOAT, Handle, INT_64, Nccl, SUM};
pub use link::CudaLink;

/// What the error of a failed sum calls it.
const CALL: &str = "adding over the cards";
/// A sum over the cards takes milliseconds, so one that takes this long has lost a card without anyone reporting it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at a sum that is under way.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// The numbers of a card that are added to those of the others.
#[derive(Clone, Copy)]
pub(crate) enum Summed<'m> {
    /// Whole numbers.
    Whole(DeviceSlice<'m, i64>),
    /// Plain numbers.
    Plain(DeviceSlice<'m, f32>),
}

impl Summed<'_> {
    /// Where the numbers lie, how many there are, and NCCL's code for their type.
    fn place(self) -> (u64, usize, i32) {
        match self {
            Self::Whole(numbers) => (numbers.address(), numbers.len(), INT_64),
            Self::Plain(numbers) => (numbers.address(), numbers.len(), FLOAT),
        }
    }
}

/// One communicator for each card that this process adds for: all cards of a group, or one among those of other processes.
#[derive(Debug)]
pub(crate) struct Communicators {
    nccl: &'static Nccl,
    /// The communicators; empty once a sum has failed.
    handles: Vec<Handle>,
    /// How long a sum may take.
    patience: Duration,
    /// What must outlive the communicators, if they may outlive the executor of their card.
    _context: Option<Arc<CudaContext>>,
}

// SAFETY: a communicator may be used from any thread, one at a time; the group that owns it is borrowed mutably while it is.
unsafe impl Send for Communicators {}
// SAFETY: no method uses a handle without the group's unique borrow.
unsafe impl Sync for Communicators {}

impl Communicators {
    /// Looks for the library.
    pub(crate) fn check() -> Result<(), CudaError> {
        Nccl::get().map(|_| ())
    }

    /// Joins cards, none of which may be named twice.
    pub(crate) fn new(devices: &[usize]) -> Result<Self, CudaError> {
        let nccl = Nccl::get()?;
        let ordinals: Vec<i32> = devices.iter().map(|&device| device as i32).collect();
        let mut handles = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: both lists have as many entries as the count says.
        let joined =
            unsafe { (nccl.comm_init_all)(handles.as_mut_ptr(), devices.len() as i32, ordinals.as_ptr()) };
        nccl.checked("joining the cards", joined)?;
        Ok(Self { nccl, handles, patience: PATIENCE, _context: None })
    }

    /// Replaces every card's numbers by the sum over all cards, which has the same bits on each, and waits for it. Every card must have
    /// finished what it did before.
    ///
    /// A card that is lost in the middle would leave the others waiting for it. So the wait watches all of them, and at the first error, or
    /// if the wait has no end, the sum is called off on every card. The communicators cannot be used after that.
    pub(crate) fn all_reduce(&mut self, places: &[(&Device, Summed<'_>)]) -> Result<(), CudaError> {
        let like = |(_, numbers): &(&Device, Summed<'_>)| {
            let (_, len, kind) = numbers.place();
            (len, kind)
        };
        if places.iter().any(|place| like(place) != like(&places[0])) {
            return Err(CudaError::Call { call: CALL, reason: "cards hold sums of different kinds".into() });
        }
        if self.handles.len() != places.len() {
            return Err(CudaError::Call { call: CALL, reason: "an earlier sum failed".into() });
        }
        let done = self.start(places).and_then(|()| self.wait(places));
        if done.is_err() {
            for handle in self.handles.drain(..) {
                // SAFETY: each was made by `new` and ends here, once. Its answer would add nothing to the error that is reported.
                let _ = unsafe { (self.nccl.comm_abort)(handle) };
            }
        }
        done
    }

    fn start(&self, places: &[(&Device, Summed<'_>)]) -> Result<(), CudaError> {
        let nccl = self.nccl;
        // SAFETY: opens a list of calls, which is closed below whatever comes of them.
        nccl.checked(CALL, unsafe { (nccl.group_start)() })?;
        let each = places.iter().zip(&self.handles).try_for_each(|((device, numbers), &handle)| {
            let (start, len, kind) = numbers.place();
            let stream = device.stream.cu_stream().cast();
            // SAFETY: the numbers lie in a slice of the card's memory, and were checked to have the same length and type on every card;
            // streams and communicators are those of the cards. The slices are borrowed until the sum has been waited for.
            nccl.checked(CALL, unsafe {
                (nccl.all_reduce)(start as *const _, start as *mut _, len, kind, SUM, handle, stream)
            })
        });
        // SAFETY: closes the list.
        let ended = nccl.checked(CALL, unsafe { (nccl.group_end)() });
        each.and(ended)
    }

    fn wait(&self, places: &[(&Device, Summed<'_>)]) -> Result<(), CudaError> {
        let began = Instant::now();
        let mut ends = places.iter().map(|(device, _)| device.event()).collect::<Result<Vec<_>, _>>()?;
        loop {
            let mut waiting = Vec::new();
            for end in ends {
                if !call(CALL, end.try_is_complete())? {
                    waiting.push(end);
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            for &handle in &self.handles {
                let mut status = 0;
                // SAFETY: the communicator is alive, and the call writes one status.
                self.nccl.checked(CALL, unsafe { (self.nccl.comm_get_async_error)(handle, &mut status) })?;
                self.nccl.checked(CALL, status)?;
            }
            if began.elapsed() > self.patience {
                return Err(CudaError::Call { call: CALL, reason: "a card does not answer".into() });
            }
            std::thread::sleep(LOOK_EVERY);
            ends = waiting;
        }
    }
}

impl Drop for Communicators {
    fn drop(&mut self) {
        for &handle in &self.handles {
            // SAFETY: each was made by `new` and is destroyed once. A failure would leave a little memory behind.
            let _ = unsafe { (self.nccl.comm_destroy)(handle) };
        }
    }
}
