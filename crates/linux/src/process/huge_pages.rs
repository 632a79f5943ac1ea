//! Whether the memory of this process may be in huge pages.

use std::io;

/// None from now on. Children inherit it, and programs that they execute: whoever runs a program of
/// others allows it again.
pub fn refuse_huge_pages() -> io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

pub fn allow_huge_pages() -> io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(false)?)
}

#[cfg(test)]
mod tests {
    use super::{allow_huge_pages, refuse_huge_pages};

    #[test]
    fn it_can_be_said_and_taken_back() {
        let is_refused = || rustix::thread::transparent_huge_pages_are_disabled();
        refuse_huge_pages().unwrap();
        assert!(is_refused().unwrap());
        allow_huge_pages().unwrap();
        assert!(!is_refused().unwrap());
    }
}
