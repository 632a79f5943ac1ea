//! Really starts containers, with `busybox` as their image, and looks at them from inside. Runs one
//! case after another in the main thread, because only a process with a single thread can fork
//! them.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test, though without the usual harness clippy does not see it"
)]

mod cases;
mod machine;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

fn main() -> ExitCode {
    let machine = match machine::Machine::new() {
        Ok(machine) => machine,
        Err(why) => {
            println!("SKIPPED: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let filter = std::env::args().nth(1).filter(|it| !it.starts_with('-')).unwrap_or_default();
    let mut failed = Vec::new();
    for (name, case) in cases::ALL.iter().filter(|(name, _)| name.contains(&filter)) {
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| case(&machine)));
        println!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
        if result.is_err() {
            failed.push(*name);
        }
    }
    let left = machine.leave();
    if failed.is_empty() && left.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {failed:?}; left behind: {left:?}");
    ExitCode::FAILURE
}
