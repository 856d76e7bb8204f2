//! How a kernel is declared: once, beside its source, with the types of its parameters.
//!
//! ```text
//! /// What it does.
//! Add = "add" { a: In<f32>[n], b: In<f32>[n], y: Out<f32>[n], n: Long } over LaunchGrid::fours(n);
//! ```
//!
//! A declaration makes a structure with a field for each parameter, so that a launch names what it passes; a method `launch`; and an entry
//! in the list of kernels that are loaded. The brackets after a parameter say what must hold for it, in terms of the others: for an
//! address, how many elements the kernel may touch there; for a number, a condition. Both are checked before a launch. If they are all it
//! takes to keep a kernel inside its memory, `launch` is safe. If the kernel also follows a table on the card, the declaration ends with
//! what the caller must promise, and `launch` is unsafe.
//!
//! Names in `given` are the host's own, for the grid and the extents. A kernel that exists in several sizes has several names, and the
//! field after `by` chooses among them. A kernel marked `[large]` may use more shared memory than a block gets unasked.

use std::marker::PhantomData;

use crate::cuda::slice::{DeviceElement, DeviceSlice};

/// A kernel, with its names and with its parameters as its source should declare them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration {
    pub(crate) names: &'static [&'static str],
    /// Whether it may use more shared memory than a block gets unasked.
    pub(crate) large: bool,
    /// The types of the parameters, in order.
    #[cfg_attr(not(test), expect(dead_code, reason = "held against the sources by a test"))]
    pub(crate) parameters: &'static [&'static str],
}

/// A type of parameter: what a caller gives for it, and the bytes that the kernel is passed.
pub(crate) trait KernelParameter {
    /// The type in the kernel's source.
    const TYPE: &'static str;
    /// What a caller gives.
    type Given<'a>;
    /// What the kernel is passed, which has exactly the bytes of the type in the source.
    type Passed;
    /// Converts what was given; `None` if it does not fit.
    fn pass(given: Self::Given<'_>) -> Option<Self::Passed>;
}

/// A parameter of which a declaration may demand something.
pub(crate) trait Holds<Wanted>: KernelParameter {
    fn holds(given: &Self::Given<'_>, wanted: Wanted) -> bool;
}

/// The address of elements that a kernel reads.
pub(crate) struct In<T>(PhantomData<T>);
/// The address of elements that a kernel writes, and may read.
pub(crate) struct Out<T>(PhantomData<T>);
/// An address that may be missing, in which case the kernel skips what it would do there.
pub(crate) struct Maybe<P>(PhantomData<P>);
/// A count or an index in 32 bits.
pub(crate) struct Count;
/// A count or a distance in 64 bits.
pub(crate) struct Long;
/// A number without a sign in 64 bits.
pub(crate) struct Wide;
/// Yes or no.
pub(crate) struct Flag;
/// The number that the kernel gives to one of a few cases.
pub(crate) struct Code;
/// A structure that travels with the launch.
pub(crate) struct ByValue<T>(PhantomData<T>);

/// A structure that travels with a launch.
///
/// # Safety
/// It is laid out as the structure of that name in the kernels' sources.
pub(crate) unsafe trait Structure: Copy {
    const TYPE: &'static str;
}

impl<T: DeviceElement> KernelParameter for In<T> {
    const TYPE: &'static str = T::READ;
    type Given<'a> = DeviceSlice<'a, T>;
    type Passed = u64;
    fn pass(given: DeviceSlice<'_, T>) -> Option<u64> {
        Some(given.address())
    }
}

impl<T: DeviceElement> KernelParameter for Out<T> {
    const TYPE: &'static str = T::WRITTEN;
    type Given<'a> = DeviceSlice<'a, T>;
    type Passed = u64;
    fn pass(given: DeviceSlice<'_, T>) -> Option<u64> {
        Some(given.address())
    }
}

impl<P: KernelParameter<Passed = u64>> KernelParameter for Maybe<P> {
    const TYPE: &'static str = P::TYPE;
    type Given<'a> = Option<P::Given<'a>>;
    type Passed = u64;
    fn pass(given: Option<P::Given<'_>>) -> Option<u64> {
        given.map_or(Some(0), P::pass)
    }
}

impl<T: DeviceElement> Holds<usize> for In<T> {
    fn holds(given: &DeviceSlice<'_, T>, elements: usize) -> bool {
        given.len() >= elements
    }
}

impl<T: DeviceElement> Holds<usize> for Out<T> {
    fn holds(given: &DeviceSlice<'_, T>, elements: usize) -> bool {
        given.len() >= elements
    }
}

impl<P: Holds<usize> + KernelParameter<Passed = u64>> Holds<usize> for Maybe<P> {
    fn holds(given: &Option<P::Given<'_>>, elements: usize) -> bool {
        given.as_ref().is_none_or(|given| P::holds(given, elements))
    }
}

impl KernelParameter for Count {
    const TYPE: &'static str = "int";
    type Given<'a> = usize;
    type Passed = i32;
    fn pass(given: usize) -> Option<i32> {
        i32::try_from(given).ok()
    }
}

impl KernelParameter for Long {
    const TYPE: &'static str = "i64";
    type Given<'a> = usize;
    type Passed = i64;
    fn pass(given: usize) -> Option<i64> {
        i64::try_from(given).ok()
    }
}

impl KernelParameter for Wide {
    const TYPE: &'static str = "u64";
    type Given<'a> = usize;
    type Passed = u64;
    fn pass(given: usize) -> Option<u64> {
        u64::try_from(given).ok()
    }
}

impl KernelParameter for Flag {
    const TYPE: &'static str = "int";
    type Given<'a> = bool;
    type Passed = i32;
    fn pass(given: bool) -> Option<i32> {
        Some(i32::from(given))
    }
}

impl KernelParameter for Code {
    const TYPE: &'static str = "int";
    type Given<'a> = i32;
    type Passed = i32;
    fn pass(given: i32) -> Option<i32> {
        Some(given)
    }
}

impl KernelParameter for f32 {
    const TYPE: &'static str = "float";
    type Given<'a> = Self;
    type Passed = Self;
    fn pass(given: Self) -> Option<Self> {
        Some(given)
    }
}

impl KernelParameter for f64 {
    const TYPE: &'static str = "double";
    type Given<'a> = Self;
    type Passed = Self;
    fn pass(given: Self) -> Option<Self> {
        Some(given)
    }
}

impl<T: Structure> KernelParameter for ByValue<T> {
    const TYPE: &'static str = T::TYPE;
    type Given<'a> = T;
    type Passed = T;
    fn pass(given: T) -> Option<T> {
        Some(given)
    }
}

impl Holds<bool> for Count {
    fn holds(_given: &usize, condition: bool) -> bool {
        condition
    }
}

impl Holds<bool> for Long {
    fn holds(_given: &usize, condition: bool) -> bool {
        condition
    }
}

impl Holds<bool> for Flag {
    fn holds(_given: &bool, condition: bool) -> bool {
        condition
    }
}

/// How many numbers there are up to the end of the last of `count` rows of `len`, which begin `stride` apart.
pub(super) fn rows(count: usize, stride: usize, len: usize) -> usize {
    count.checked_sub(1).map_or(0, |before| before * stride + len)
}

/// Declares the kernels of a source, as the head of this file describes.
macro_rules! kernels {
    ($(
        $(#[$doc:meta])*
        $name:ident = $($c:literal)|+ $(by $variant:ident)? $([$large:ident])? {
            $($field:ident: $kind:ty $([$wanted:expr])?),* $(,)?
        }
        $(given { $($host:ident: $host_type:ty),* $(,)? })?
        over $grid:expr
        $(, $unsafe:ident: $promise:literal)?;
    )*) => {
        /// All kernels of this source.
        pub(super) const KERNELS: &[$crate::cuda::kernels::declare::Declaration] =
            &[$($crate::cuda::kernels::declare::Declaration {
                names: &[$($c),+],
                large: { let marks: &[&str] = &[$(stringify!($large))?]; !marks.is_empty() },
                parameters: &[$(<$kind as $crate::cuda::kernels::declare::KernelParameter>::TYPE),*],
            }),*];
        $(
            $(#[$doc])*
            pub(crate) struct $name<'a> {
                $($(pub(crate) $host: $host_type,)*)?
                $(pub(crate) $field: <$kind as $crate::cuda::kernels::declare::KernelParameter>::Given<'a>,)*
            }

            impl $name<'_> {
                /// Starts the kernel, unless its grid is empty.
                $(
                    ///
                    /// # Safety
                    #[doc = $promise]
                )?
                pub(crate) $($unsafe)? fn launch(
                    self,
                    device: &$crate::cuda::device::Device,
                ) -> Result<(), $crate::cuda::error::CudaError> {
                    use $crate::cuda::kernels::declare::{Holds, KernelParameter};
                    use $crate::cuda::launch::{internal, start};
                    let Self { $($($host,)*)? $($field),* } = self;
                    let kernel = [$($c),+][0 $(+ $variant)?];
                    let grid: $crate::cuda::launch::LaunchGrid = $grid;
                    if grid.is_empty() {
                        return Ok(());
                    }
                    $($(if !<$kind as Holds<_>>::holds(&$field, $wanted) {
                        return Err(internal(kernel, concat!(stringify!($field), " is too small").into()));
                    })?)*
                    $(let $field = <$kind as KernelParameter>::pass($field).ok_or_else(|| {
                        internal(kernel, concat!(stringify!($field), " is too large").into())
                    })?;)*
                    let mut parameters = [$((&raw const $field).cast_mut().cast::<std::ffi::c_void>()),*];
                    // SAFETY: a test compares the number, order and types of the parameters with the source. What the kernel touches was
                    // compared with what is there, and if that depends on tables, the caller has made the declared promise.
                    unsafe { start(device, kernel, grid, &mut parameters) }
                }
            }
        )*
    };
}
pub(super) use kernels;
