//! The store as its users see it, on a real filesystem. Unpacking needs root.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stdout, reason = "a test that skips says so")]

mod archives;
mod content;
mod debian;
mod fake;
mod pulls;
mod removal;
mod sharing;
mod toolbox;
