//! Content addresses: `sha256:` and 64 hexadecimal digits. What carries a `Digest` was checked for
//! its form, not for its content; [`Hashing`] checks content while it flows.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";
const HEX_DIGITS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest {
    hex: String,
}

impl Digest {
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(hex) = text.strip_prefix(PREFIX) else {
            return Err(format!("unsupported digest {text:?}, only sha256 is supported"));
        };
        let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != HEX_DIGITS || !hex.bytes().all(is_digit) {
            return Err(format!("invalid checksum digest format {text:?}"));
        }
        Ok(Self { hex: hex.to_owned() })
    }

    pub fn of(content: &[u8]) -> Self {
        Self::from_hash(Sha256::new_with_prefix(content))
    }

    fn from_hash(hash: Sha256) -> Self {
        let hex = hash.finalize().iter().map(|it| format!("{it:02x}")).collect();
        Self { hex }
    }

    /// Without the prefix: safe as a file name, also between the colons of overlayfs' options.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.hex)
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// Hashes what is read through it.
pub(crate) struct Hashing<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Hashing<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    pub(crate) fn finish(self) -> Digest {
        Digest::from_hash(self.hash)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hash.update(&buffer[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn only_whole_lower_case_sha256_digests_are_digests() {
        let check = |text: &str, is_digest: bool| {
            assert_eq!(Digest::parse(text).is_ok(), is_digest, "{text}");
        };
        let hex = "ab".repeat(32);
        check(&format!("sha256:{hex}"), true);
        check(&format!("sha256:{}", hex.to_uppercase()), false);
        check(&format!("sha256:{}", &hex[1..]), false);
        check(&format!("sha256:{}/", &hex[1..]), false);
        check(&format!("sha512:{hex}{hex}"), false);
        check(&hex, false);
        assert_eq!(
            Digest::of(b"").to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
