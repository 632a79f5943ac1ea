//! Small tools for a first workload: what the image `xebec.local/toolbox` runs. Each is one file.

use std::ffi::OsString;
use std::process::ExitCode;

/// The name that makes the binary a toolbox when it is called by it.
pub const PROGRAM: &str = "toolbox";

/// `arguments` without the program's name.
pub fn run(_arguments: Vec<OsString>) -> ExitCode {
    todo!()
}
