//! bpf(2): a command and `union bpf_attr`.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{FromRawFd as _, OwnedFd};

use super::{Error, NAME_MAX};

#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgramLoad = 5,
    ProgramAttach = 8,
    ProgramDetach = 9,
    ProgramById = 13,
    MapById = 14,
    Describe = 15,
    ProgramQuery = 16,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    MapDeleteBatch = 27,
}

/// More than any command here fills; kernels that know less want the rest to be zero, which it is.
const LENGTH: usize = 128;

/// `union bpf_attr`: numbers and addresses at the offsets that `linux/bpf.h` gives them.
#[repr(C, align(8))]
pub(super) struct Attributes<'a> {
    bytes: [u8; LENGTH],
    pointed_to: PhantomData<&'a mut [u8]>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new() -> Self {
        Self { bytes: [0; LENGTH], pointed_to: PhantomData }
    }

    pub(super) fn u32(mut self, offset: usize, number: u32) -> Self {
        self.bytes[offset..offset + 4].copy_from_slice(&number.to_ne_bytes());
        self
    }

    pub(super) fn descriptor(self, offset: usize, descriptor: i32) -> Self {
        self.u32(offset, descriptor.cast_unsigned())
    }

    pub(super) fn u64(mut self, offset: usize, number: u64) -> Self {
        self.bytes[offset..offset + 8].copy_from_slice(&number.to_ne_bytes());
        self
    }

    pub(super) fn input<T>(self, offset: usize, from: &'a [T]) -> Self {
        self.u64(offset, from.as_ptr() as u64)
    }

    pub(super) fn output<T>(self, offset: usize, to: &'a mut [T]) -> Self {
        self.u64(offset, to.as_mut_ptr() as u64)
    }

    /// The name of a map or program.
    pub(super) fn name(mut self, offset: usize, name: &str) -> Result<Self, Error> {
        let is_letter = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'.';
        if name.len() > NAME_MAX || !name.bytes().all(is_letter) {
            return Err(Error::Name { name: name.to_owned() });
        }
        self.bytes[offset..offset + name.len()].copy_from_slice(name.as_bytes());
        Ok(self)
    }

    /// What the kernel has written there.
    pub(super) fn read_u32(&self, offset: usize) -> u32 {
        u32_at(&self.bytes, offset)
    }

    /// # Safety
    ///
    /// What the attributes point to is as long as the command reads or writes.
    pub(super) unsafe fn call(&mut self, command: Command) -> io::Result<i32> {
        let attributes = (&raw mut self.bytes).cast::<libc::c_void>();
        // SAFETY: the attributes live through the call and are of this length; the caller answers
        // for what they point to, which they borrow.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command as i32, attributes, LENGTH) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        i32::try_from(result).map_err(io::Error::other)
    }

    /// For commands that answer with a descriptor.
    ///
    /// # Safety
    ///
    /// As for [`Attributes::call`].
    pub(super) unsafe fn open(&mut self, command: Command) -> io::Result<OwnedFd> {
        // SAFETY: the caller's promise is the same.
        let descriptor = unsafe { self.call(command) }?;
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let bytes = bytes.get(offset..).and_then(|it| it.first_chunk::<4>());
    bytes.map_or(0, |it| u32::from_ne_bytes(*it))
}

/// A name that ends with a zero.
pub(super) fn name_at(bytes: &[u8], offset: usize) -> String {
    let name = bytes.get(offset..).unwrap_or_default();
    let name = name.iter().take(NAME_MAX).take_while(|it| **it != 0).copied().collect();
    String::from_utf8(name).unwrap_or_default()
}

/// What `BPF_OBJ_GET_INFO_BY_FD` writes about a map or program.
///
/// # Safety
///
/// What `description` points to in turn is as long as it says.
pub(super) unsafe fn describe(descriptor: i32, description: &mut [u8]) -> io::Result<()> {
    let length = u32::try_from(description.len()).map_err(io::Error::other)?;
    let attributes = Attributes::new().descriptor(0, descriptor).u32(4, length);
    // SAFETY: the kernel writes as much as it was told there is room for; for the rest, the caller
    // answers.
    unsafe { attributes.output(8, description).call(Command::Describe) }.map(drop)
}
