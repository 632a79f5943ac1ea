//! What a program needs to start, from its ELF headers (64 bits, little-endian): the loader and the
//! shared libraries. See elf(5).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RUNPATH: u64 = 29;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const DYNAMIC_ENTRY: usize = 16;
const TABLE_MAX: u64 = 1 << 20;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// `None`: linked statically.
    pub(super) loader: Option<String>,
    pub(super) libraries: Vec<String>,
    pub(super) run_paths: Vec<String>,
}

#[derive(Clone, Copy)]
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an ELF program for 64 bits, little-endian")
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> io::Result<u64> {
    let field = bytes.get(at..at + N).ok_or_else(wrong)?;
    Ok(field.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

fn bytes(file: &File, at: u64, size: u64) -> io::Result<Vec<u8>> {
    if size > TABLE_MAX {
        return Err(wrong());
    }
    let mut buffer = vec![0; usize::try_from(size).map_err(|_| wrong())?];
    file.read_exact_at(&mut buffer, at)?;
    Ok(buffer)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|it| *it == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

pub(super) fn needs(file: &File) -> io::Result<Needs> {
    let segments = segments(file)?;
    let of_kind = |kind| segments.iter().copied().find(|it| it.kind == kind);
    let mut needs = Needs::default();
    if let Some(segment) = of_kind(PT_INTERP) {
        needs.loader = Some(text(&bytes(file, segment.offset, segment.size)?));
    }
    let Some(dynamic) = of_kind(PT_DYNAMIC) else { return Ok(needs) };
    let dynamic = bytes(file, dynamic.offset, dynamic.size)?;
    let entries: Vec<(u64, u64)> = dynamic
        .chunks_exact(DYNAMIC_ENTRY)
        .map(|it| Ok((number::<8>(it, 0)?, number::<8>(it, 8)?)))
        .collect::<io::Result<_>>()?;
    let of_tag = |tag| entries.iter().find(|it| it.0 == tag).map(|it| it.1);
    let (Some(address), Some(size)) = (of_tag(DT_STRTAB), of_tag(DT_STRSZ)) else {
        return Ok(needs);
    };
    let inside = |it: &&Segment| it.kind == PT_LOAD && address.wrapping_sub(it.address) < it.size;
    let segment = segments.iter().find(inside).ok_or_else(wrong)?;
    let strings = bytes(file, segment.offset + (address - segment.address), size)?;
    for (tag, at) in entries {
        let value = || usize::try_from(at).ok().and_then(|at| strings.get(at..)).map(text);
        match tag {
            DT_NEEDED => needs.libraries.push(value().ok_or_else(wrong)?),
            DT_RUNPATH => {
                let paths = value().ok_or_else(wrong)?;
                needs.run_paths.extend(paths.split(':').map(str::to_owned));
            }
            _ => {}
        }
    }
    Ok(needs)
}

fn segments(file: &File) -> io::Result<Vec<Segment>> {
    let header = bytes(file, 0, HEADER as u64)?;
    // The magic number, then class and byte order.
    if &header[..6] != b"\x7fELF\x02\x01" || number::<2>(&header, 54)? != PROGRAM_HEADER as u64 {
        return Err(wrong());
    }
    let count = number::<2>(&header, 56)?;
    let table = bytes(file, number::<8>(&header, 32)?, count * PROGRAM_HEADER as u64)?;
    let segment = |it: &[u8]| {
        Ok(Segment {
            kind: u32::try_from(number::<4>(it, 0)?).map_err(|_| wrong())?,
            offset: number::<8>(it, 8)?,
            address: number::<8>(it, 16)?,
            size: number::<8>(it, 32)?,
        })
    };
    table.chunks_exact(PROGRAM_HEADER).map(segment).collect()
}
