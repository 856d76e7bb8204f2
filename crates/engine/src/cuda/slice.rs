//! Memory on the card as slices, which are addresses that know what lies there, how much of it, and for how long.

use std::marker::PhantomData;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};

/// A type whose values can lie on the card, with its name in the kernels' sources.
///
/// # Safety
/// Every pattern of bits is a value of the type, it has no padding, and it is laid out as the type of that name in the kernels' sources.
pub(crate) unsafe trait DeviceElement: Copy + 'static {
    /// The name of an address from which it is only read.
    const READ: &'static str;
    /// The name of an address to which it is written.
    const WRITTEN: &'static str;
    /// The number of bytes that divides every address of it.
    const ALIGNMENT: usize = align_of::<Self>();
}

/// Says how the kernels name a type.
macro_rules! element {
    ($($type:ty => $name:literal $(aligned to $alignment:literal)?),* $(,)?) => {$(
        // SAFETY: these are plain numbers without padding, which the kernels' sources declare in the same way; both sides assert the sizes
        // of structures.
        unsafe impl $crate::cuda::slice::DeviceElement for $type {
            const READ: &'static str = concat!("const ", $name, "*");
            const WRITTEN: &'static str = concat!($name, "*");
            $(const ALIGNMENT: usize = $alignment;)?
        }
    )*};
}
pub(crate) use element;

element! {
    f32 => "float",
    f64 => "double",
    i32 => "int",
    u32 => "u32",
    i64 => "i64",
    u64 => "u64",
    [f32; 4] => "float4" aligned to 16,
    [i32; 4] => "int4" aligned to 16,
    [u32; 4] => "uint4" aligned to 16,
    Half => "half",
}

/// A number of 16 bits, as the libraries take it: a half, or in bf16 a bf16. Our own kernels read several of them at a time, as one larger number.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Half(u16);

/// Numbers that lie on the card for as long as `'m`.
///
/// It is like a slice of cells: others may read and write the same numbers, even through other types. The card does what it is told in
/// order, every pattern of bits is a number, and the host reads nothing before it has waited. Memory is freed in the same order, so what was
/// started with a slice has run before its memory is given to someone else.
pub(crate) struct DeviceSlice<'m, T> {
    address: u64,
    len: usize,
    memory: PhantomData<&'m [T]>,
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

impl<'m, T: DeviceElement> DeviceSlice<'m, T> {
    /// How many numbers it has.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Where it lies, for calls into the driver and its libraries.
    pub(crate) fn address(self) -> u64 {
        self.address
    }

    /// The slice without its first `numbers` numbers.
    pub(crate) fn after(self, numbers: usize) -> Self {
        let len = self.len.checked_sub(numbers).expect("a planned place lies inside of its memory");
        Self { address: self.address + (numbers * size_of::<T>()) as u64, len, ..self }
    }

    /// The first `numbers` numbers.
    pub(crate) fn first(self, numbers: usize) -> Self {
        assert!(numbers <= self.len, "a planned part lies inside of its memory");
        Self { len: numbers, ..self }
    }

    /// The same bytes as numbers of another type, as many as fit.
    pub(crate) fn cast<U: DeviceElement>(self) -> DeviceSlice<'m, U> {
        assert!(
            self.address.is_multiple_of(U::ALIGNMENT as u64),
            "planned memory is aligned for what lies in it"
        );
        DeviceSlice {
            address: self.address,
            len: self.len * size_of::<T>() / size_of::<U>(),
            memory: PhantomData,
        }
    }
}

/// A stretch of some memory, before it is known where that lies.
#[derive(Debug)]
pub(crate) struct MemoryRegion<T> {
    /// Where it starts, in numbers of four bytes.
    start: usize,
    /// How long it is, in its own elements.
    len: usize,
    element: PhantomData<T>,
}

impl<T> Clone for MemoryRegion<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MemoryRegion<T> {}

/// Every region is aligned to this many numbers of four bytes, which is 256 bytes.
const ALIGNMENT: usize = 64;

/// Lays out regions one after the other.
#[derive(Debug, Default)]
pub(crate) struct Carve {
    len: usize,
}

impl Carve {
    /// Adds a region of this many elements after all others.
    pub(crate) fn take<T: DeviceElement>(&mut self, elements: usize) -> MemoryRegion<T> {
        let start = self.len;
        self.len += (elements * size_of::<T>()).div_ceil(4).next_multiple_of(ALIGNMENT);
        MemoryRegion { start, len: elements, element: PhantomData }
    }

    /// How many numbers of four bytes all regions take.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// An allocation on the card.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    /// Holds the memory until it is dropped.
    _memory: CudaSlice<f32>,
    address: u64,
    len: usize,
}

impl DeviceMemory {
    /// An allocation of which the first `len` numbers of four bytes are used.
    pub(crate) fn new(memory: CudaSlice<f32>, len: usize, stream: &CudaStream) -> Self {
        assert!(len <= memory.len(), "no more is used than was allocated");
        let (address, guard) = memory.device_ptr(stream);
        drop(guard);
        Self { address, len, _memory: memory }
    }

    /// How many numbers of four bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The whole allocation.
    pub(crate) fn slice<T: DeviceElement>(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::<f32> { address: self.address, len: self.len, memory: PhantomData }.cast()
    }

    /// A region of the allocation.
    pub(crate) fn region<T: DeviceElement>(&self, region: MemoryRegion<T>) -> DeviceSlice<'_, T> {
        self.slice::<f32>().after(region.start).cast().first(region.len)
    }
}
