//! The only calls into an MPI library, and all that is unsafe about them.
//!
//! MPI's binary interfaces differ in what a handle is: Open MPI's are addresses of the library's own objects, MPICH's are whole numbers, and
//! those of the standard's interface are small constants in the guise of addresses. [`Calls`] has the handle's type as a parameter, so that
//! each function is called with the very signature that it was compiled with.

use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::ThreadId;
use std::time::Duration;

use crate::error::MpiError;
use crate::launch::Launch;
use crate::library::candidates;
use crate::link::{Addends, Link};
use crate::patience::Patience;

/// How long a rank looks for what others have to say before it naps between looks, and how long for sums, of which each look moves a piece on.
const AWAKE: Duration = Duration::from_millis(2);
const AWAKE_FOR_SUMS: Duration = Duration::from_secs(1);
/// How long a launcher is given to pass on what a rank said last.
const LAST_OUTPUT: Duration = Duration::from_millis(200);
/// How long the library may take to end all ranks.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// The longest text of an error, over all libraries.
const LONGEST_TEXT: usize = 8192;
/// The exit code of ranks that are ended.
const ENDED: c_int = 1;

/// The functions of a library whose handles are of type `H`.
#[derive(Clone, Copy)]
struct Functions<H> {
    init_thread: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    comm_rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    comm_size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    comm_set_errhandler: unsafe extern "C" fn(H, H) -> c_int,
    ibcast: unsafe extern "C" fn(*mut c_void, c_int, H, c_int, H, *mut H) -> c_int,
    iallgather: unsafe extern "C" fn(*const c_void, c_int, H, *mut c_void, c_int, H, H, *mut H) -> c_int,
    iallreduce: unsafe extern "C" fn(*const c_void, *mut c_void, c_int, H, H, H, *mut H) -> c_int,
    test: unsafe extern "C" fn(*mut H, *mut c_int, *mut c_void) -> c_int,
    abort: unsafe extern "C" fn(H, c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
}

/// The constants of a library.
#[derive(Clone, Copy)]
struct Constants<H> {
    world: H,
    byte: H,
    int32: H,
    int64: H,
    float: H,
    sum: H,
    errors_return: H,
    in_place: *mut c_void,
    status_ignore: *mut c_void,
    funneled: c_int,
}

/// A library that is loaded, and stays so until the process ends, because it has threads and handlers of its own.
struct MpiLibrary {
    library: ManuallyDrop<libloading::Library>,
    name: String,
}

impl MpiLibrary {
    /// Loads the first of these libraries that is there.
    fn first(launch: Launch) -> Result<Self, MpiError> {
        let names = candidates(launch.family);
        for name in &names {
            if let Some(library) = open(name) {
                return Ok(Self { library: ManuallyDrop::new(library), name: name.display().to_string() });
            }
        }
        let tried = names.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ");
        Err(MpiError::NotFound { size: launch.size, tried })
    }

    fn unusable(&self, problem: impl Into<String>) -> MpiError {
        MpiError::Unusable { library: self.name.clone(), problem: problem.into() }
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` must be the type of a function pointer with the signature that the library's function of this name has.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, MpiError> {
        // SAFETY: the caller knows the type. The library is never unloaded, so a copy of the pointer stays good.
        unsafe { self.library.get::<F>(name) }
            .map(|symbol| *symbol)
            .map_err(|_| self.unusable(format!("it has no {name}")))
    }

    /// The address of an object of the library.
    fn object(&self, name: &str) -> Result<*mut c_void, MpiError> {
        // SAFETY: only the address is taken, whatever lies there.
        unsafe { self.function::<*mut c_void>(name) }
    }

    /// # Safety
    /// `H` must be the type of the library's handles.
    unsafe fn functions<H>(&self) -> Result<Functions<H>, MpiError> {
        // SAFETY: these are the signatures of the MPI standard, with the handles that the caller vouches for.
        unsafe {
            Ok(Functions {
                init_thread: self.function("MPI_Init_thread")?,
                comm_rank: self.function("MPI_Comm_rank")?,
                comm_size: self.function("MPI_Comm_size")?,
                comm_set_errhandler: self.function("MPI_Comm_set_errhandler")?,
                ibcast: self.function("MPI_Ibcast")?,
                iallgather: self.function("MPI_Iallgather")?,
                iallreduce: self.function("MPI_Iallreduce")?,
                test: self.function("MPI_Test")?,
                abort: self.function("MPI_Abort")?,
                finalize: self.function("MPI_Finalize")?,
                error_string: self.function("MPI_Error_string")?,
            })
        }
    }

    /// The library's name and version, as it says them.
    fn version(&self) -> Result<String, MpiError> {
        // SAFETY: the signature is the standard's and has no handle.
        let version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
            unsafe { self.function("MPI_Get_library_version")? };
        let mut text = vec![0u8; LONGEST_TEXT];
        let mut length = 0;
        // SAFETY: the text is at least as long as any library's longest version. The call is allowed before MPI is initialised.
        let code = unsafe { version(text.as_mut_ptr().cast(), &raw mut length) };
        if code != 0 {
            return Err(self.unusable("it does not tell its version"));
        }
        Ok(words(&text, length))
    }
}

#[cfg(unix)]
fn open(name: &Path) -> Option<libloading::Library> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: loading runs the initialisers of the library, which is an MPI library or one that the user named as such. Its own plugins look
    // for its symbols, so these must be global.
    unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }.ok().map(Into::into)
}

#[cfg(not(unix))]
fn open(name: &Path) -> Option<libloading::Library> {
    // SAFETY: loading runs the initialisers of the library, which is an MPI library or one that the user named as such.
    unsafe { libloading::Library::new(name) }.ok()
}

/// The text that a library wrote, on one line.
fn words(text: &[u8], length: c_int) -> String {
    let length = usize::try_from(length).unwrap_or(0).min(text.len());
    let text = String::from_utf8_lossy(&text[..length]);
    let text = text.split('\0').next().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Joins the other ranks of a launch.
pub(crate) fn join(
    launch: Launch,
    told: fn(&MpiError),
    patience: Duration,
) -> Result<Box<dyn Link>, MpiError> {
    let loaded = MpiLibrary::first(launch)?;
    let version = loaded.version()?;
    let file = Path::new(&loaded.name)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    if loaded.object("ompi_mpi_comm_world").is_ok() {
        let object = |name| loaded.object(name);
        let constants = Constants {
            world: object("ompi_mpi_comm_world")?,
            byte: object("ompi_mpi_byte")?,
            int32: object("ompi_mpi_int32_t")?,
            int64: object("ompi_mpi_int64_t")?,
            float: object("ompi_mpi_float")?,
            sum: object("ompi_mpi_op_sum")?,
            errors_return: object("ompi_mpi_errors_return")?,
            in_place: ptr::without_provenance_mut(1),
            status_ignore: ptr::null_mut(),
            funneled: 1,
        };
        // SAFETY: a library with these objects is Open MPI, whose handles are addresses.
        let functions = unsafe { loaded.functions::<*mut c_void>()? };
        Calls::join(functions, constants, ptr::null_mut(), &loaded, version, told, patience)
    } else if file.starts_with("libmpi_abi") {
        let handle = ptr::without_provenance_mut::<c_void>;
        let constants = Constants {
            world: handle(0x101),
            byte: handle(0x247),
            int32: handle(0x250),
            int64: handle(0x258),
            float: handle(0x210),
            sum: handle(0x21),
            errors_return: handle(0x143),
            in_place: handle(1),
            status_ignore: ptr::null_mut(),
            funneled: 1024,
        };
        // SAFETY: libraries of this name have the standard's interface, whose handles are of the size of addresses.
        let functions = unsafe { loaded.functions::<*mut c_void>()? };
        Calls::join(functions, constants, ptr::null_mut(), &loaded, version, told, patience)
    } else if ["MPICH", "Intel", "MVAPICH", "Cray"].iter().any(|name| version.contains(name)) {
        let constants = Constants::<c_int> {
            world: 0x4400_0000,
            byte: 0x4c00_010d,
            int32: 0x4c00_0439,
            int64: 0x4c00_083a,
            float: 0x4c00_040a,
            sum: 0x5800_0003,
            errors_return: 0x5400_0001,
            in_place: ptr::without_provenance_mut(usize::MAX),
            status_ignore: ptr::without_provenance_mut(1),
            funneled: 1,
        };
        // SAFETY: these libraries share MPICH's interface, whose handles are whole numbers.
        let functions = unsafe { loaded.functions::<c_int>()? };
        Calls::join(functions, constants, 0, &loaded, version, told, patience)
    } else {
        Err(loaded.unusable(format!("of an unknown kind: {version}")))
    }
}

/// A rank of an initialised library.
struct Calls<H> {
    functions: Functions<H>,
    constants: Constants<H>,
    /// What a request is before the library has written it.
    no_request: H,
    rank: usize,
    size: usize,
    words: String,
    /// The thread that initialised the library and alone may call it.
    owner: ThreadId,
    told: fn(&MpiError),
}

// SAFETY: handles and the addresses among the constants are never read here, only given back to the library; and that happens on the thread
// that initialised it alone, as `on_owner` checks.
unsafe impl<H> Send for Calls<H> {}

impl<H: Copy + 'static> Calls<H> {
    fn join(
        functions: Functions<H>,
        constants: Constants<H>,
        no_request: H,
        loaded: &MpiLibrary,
        version: String,
        told: fn(&MpiError),
        patience: Duration,
    ) -> Result<Box<dyn Link>, MpiError> {
        let owner = std::thread::current().id();
        let mut calls =
            Self { functions, constants, no_request, rank: 0, size: 1, words: version, owner, told };
        let Functions { init_thread, comm_rank, comm_size, comm_set_errhandler, .. } = functions;
        let (mut provided, mut rank, mut size) = (0, 0, 0);
        let silent =
            MpiError::Failed { call: "MPI_Init_thread", problem: "the other ranks do not come".to_owned() };
        let watch = CallWatch::begin(patience, told, silent);
        // SAFETY: null stands for arguments that the library need not see. It is initialised once in a process, because it is joined where a
        // process begins; if it was before, it says so.
        let code =
            unsafe { init_thread(ptr::null_mut(), ptr::null_mut(), constants.funneled, &raw mut provided) };
        drop(watch);
        calls.check("MPI_Init_thread", code)?;
        if provided < constants.funneled {
            return Err(loaded.unusable("it cannot be used beside other threads"));
        }
        // SAFETY: the library is initialised, and the communicator is the one of all ranks.
        let codes = unsafe {
            [
                comm_set_errhandler(constants.world, constants.errors_return),
                comm_rank(constants.world, &raw mut rank),
                comm_size(constants.world, &raw mut size),
            ]
        };
        codes.into_iter().try_for_each(|code| calls.check("MPI_Comm_rank", code))?;
        let number = |value: c_int| usize::try_from(value).map_err(|_| loaded.unusable("a rank below zero"));
        (calls.rank, calls.size) = (number(rank)?, number(size)?);
        Ok(Box::new(calls))
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), MpiError> {
        if code == 0 {
            return Ok(());
        }
        let mut text = vec![0u8; LONGEST_TEXT];
        let mut length = 0;
        // SAFETY: the text is longer than any library's longest message.
        unsafe { (self.functions.error_string)(code, text.as_mut_ptr().cast(), &raw mut length) };
        Err(MpiError::Failed { call, problem: words(&text, length) })
    }

    /// Refuses a call from a thread that did not initialise the library.
    fn on_owner(&mut self, call: &'static str) {
        if std::thread::current().id() != self.owner {
            self.lost(&MpiError::Thread { call });
        }
    }

    /// Tells what went wrong and ends all ranks.
    fn lost(&mut self, error: &MpiError) -> ! {
        (self.told)(error);
        // Launchers end a rank's output together with the rank, so they need a moment to pass on what was told.
        std::thread::sleep(LAST_OUTPUT);
        self.abort()
    }

    /// Begins a call that all ranks make, and waits until it is done.
    ///
    /// # Safety
    /// `begin` must start one operation of the library into the request that it is given, and every byte that this operation may read or
    /// write must stay borrowed until this returns. It returns only once the library is done with them: a wait in vain ends the process.
    unsafe fn wait(
        &mut self,
        call: &'static str,
        limits: [Duration; 2],
        begin: impl FnOnce(&Functions<H>, &Constants<H>, *mut H) -> c_int,
    ) {
        self.on_owner(call);
        let mut request = self.no_request;
        let code = begin(&self.functions, &self.constants, &raw mut request);
        if let Err(error) = self.check(call, code) {
            self.lost(&error);
        }
        let [limit, awake] = limits;
        let mut patience = Patience::new(limit, awake);
        loop {
            let mut done = 0;
            // SAFETY: the request was begun above and is not complete. No status is asked for.
            let code = unsafe {
                (self.functions.test)(&raw mut request, &raw mut done, self.constants.status_ignore)
            };
            if let Err(error) = self.check(call, code) {
                self.lost(&error);
            }
            if done != 0 {
                return;
            }
            if !patience.pause() {
                let (rank, size, seconds) = (self.rank, self.size, limit.as_secs());
                self.lost(&MpiError::Silent { rank, size, seconds });
            }
        }
    }
}

/// The number of elements as MPI counts them. Worlds send pieces that are far smaller.
fn count(elements: usize) -> c_int {
    c_int::try_from(elements).expect("a piece has less than 2^31 elements")
}

impl<H: Copy + 'static> Link for Calls<H> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn words(&self) -> String {
        self.words.clone()
    }

    fn broadcast(&mut self, bytes: &mut [u8], patience: Duration) {
        let (start, length) = (bytes.as_mut_ptr().cast(), count(bytes.len()));
        // SAFETY: the operation reads or writes `length` bytes from `start`, which are borrowed until it is done.
        unsafe {
            self.wait("MPI_Ibcast", [patience, AWAKE], |functions, constants, request| {
                (functions.ibcast)(start, length, constants.byte, 0, constants.world, request)
            });
        }
    }

    fn gather(&mut self, own: &[u8], all: &mut [u8], patience: Duration) {
        assert_eq!(all.len(), own.len() * self.size, "a place for each rank's bytes");
        let (from, to, length) = (own.as_ptr().cast(), all.as_mut_ptr().cast(), count(own.len()));
        // SAFETY: the operation reads `length` bytes and writes as many for each rank, which the line above checked; all are borrowed until it
        // is done.
        unsafe {
            self.wait("MPI_Iallgather", [patience, AWAKE], |functions, constants, request| {
                let Constants { byte, world, .. } = *constants;
                (functions.iallgather)(from, length, byte, to, length, byte, world, request)
            });
        }
    }

    fn add(&mut self, numbers: Addends<'_>, patience: Duration) {
        let Constants { int32, int64, float, .. } = self.constants;
        let (start, length, kind): (*mut c_void, _, _) = match numbers {
            Addends::Narrow(numbers) => (numbers.as_mut_ptr().cast(), count(numbers.len()), int32),
            Addends::Wide(numbers) => (numbers.as_mut_ptr().cast(), count(numbers.len()), int64),
            Addends::Plain(numbers) => (numbers.as_mut_ptr().cast(), count(numbers.len()), float),
        };
        // SAFETY: the operation reads and writes `length` numbers of this kind from `start`, which the caller lent until this returns.
        unsafe {
            self.wait("MPI_Iallreduce", [patience, AWAKE_FOR_SUMS], |functions, constants, request| {
                let Constants { in_place, sum, world, .. } = *constants;
                (functions.iallreduce)(in_place, start, length, kind, sum, world, request)
            });
        }
    }

    fn abort(&mut self) -> ! {
        // The library may wait for a launcher that is gone.
        let watch = CallWatch::begin(LAST_WORDS, |_| (), MpiError::Thread { call: "MPI_Abort" });
        if std::thread::current().id() == self.owner {
            // SAFETY: the library is initialised, and this is the thread that may call it.
            unsafe { (self.functions.abort)(self.constants.world, ENDED) };
        }
        drop(watch);
        std::process::abort()
    }

    fn finish(&mut self, patience: Duration) {
        // The library's own farewell waits without an end, so it begins once everybody is there.
        let mut all = vec![0; self.size];
        self.gather(&[0], &mut all, patience);
        let (rank, size, seconds) = (self.rank, self.size, patience.as_secs());
        let watch = CallWatch::begin(patience, self.told, MpiError::Silent { rank, size, seconds });
        // SAFETY: no operation is under way, and nothing is called afterwards, because a world is dropped when it finishes.
        unsafe { (self.functions.finalize)() };
        drop(watch);
    }
}

/// Ends the process if a call of the library, which cannot be interrupted, does not return in time.
struct CallWatch {
    /// Dropped when the call has returned.
    returned: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl CallWatch {
    fn begin(patience: Duration, told: fn(&MpiError), error: MpiError) -> Self {
        let (returned, waits) = channel::<()>();
        let thread = std::thread::Builder::new().name("dapple-mpi".to_owned()).spawn(move || {
            if waits.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                told(&error);
                std::process::abort();
            }
        });
        // Without a thread the call is not watched, and all else works.
        Self { returned: Some(returned), thread: thread.ok() }
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        self.returned = None;
        // The thread only waits, so it cannot have panicked unless what it told did.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}
