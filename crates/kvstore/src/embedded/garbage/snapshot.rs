//! A snapshot file: as it is, and with its beginning and its hash made right.

use xxhash_rust::xxh3::xxh3_64;

use crate::embedded::snapshot;

pub fn snapshot(bytes: &[u8]) {
    let _ = snapshot::check_bytes(bytes);
    let fitted = fitted(bytes);
    let _ = snapshot::check_bytes(&fitted);
}

/// Each instruction: kind, length of the body, and the body.
fn fitted(mut bytes: &[u8]) -> Vec<u8> {
    let mut content = snapshot::MAGIC.to_vec();
    while let [kind, length, rest @ ..] = bytes {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        content.push(kind % 4);
        content.extend_from_slice(&u32::try_from(body.len()).unwrap_or(0).to_le_bytes());
        content.extend_from_slice(body);
    }
    let hash = xxh3_64(&content);
    content.push(snapshot::END);
    content.extend_from_slice(&8_u32.to_le_bytes());
    content.extend_from_slice(&hash.to_le_bytes());
    content
}
