//! Why a container was not started, in one sentence such as runc says it.

use std::io;

#[derive(Debug)]
pub(super) struct Refusal(pub(super) String);

pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// The text that the kernel's number has in Go programs and C's `strerror`: in lower case, without
/// the number.
pub(super) fn describe(err: &io::Error) -> String {
    let text = err.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    match letters.next() {
        // "Permission denied", but "RPC struct is bad".
        Some(first)
            if err.raw_os_error().is_some()
                && !letters.as_str().starts_with(char::is_uppercase) =>
        {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

pub(super) trait OrRefuse<T> {
    /// `doing: cause`.
    fn or_refuse(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T> OrRefuse<T> for io::Result<T> {
    fn or_refuse(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|err| Refusal(format!("{}: {}", doing(), describe(&err))))
    }
}

impl<T> OrRefuse<T> for rustix::io::Result<T> {
    fn or_refuse(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(io::Error::from).or_refuse(doing)
    }
}

impl<T> OrRefuse<T> for std::result::Result<T, linux::mounts::Error> {
    fn or_refuse(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|err| Refusal(format!("{}: {}", doing(), stdx::error_chain(&err))))
    }
}

impl<T> OrRefuse<T> for std::result::Result<T, linux::cgroups::Error> {
    fn or_refuse(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|err| Refusal(format!("{}: {}", doing(), stdx::error_chain(&err))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_errors_read_as_upstreams() {
        let check = |errno: i32, expected: &str| {
            assert_eq!(describe(&io::Error::from_raw_os_error(errno)), expected);
        };
        check(2, "no such file or directory");
        check(13, "permission denied");
        check(8, "exec format error");
        assert_eq!(describe(&io::Error::other("As it is")), "As it is");
    }
}
