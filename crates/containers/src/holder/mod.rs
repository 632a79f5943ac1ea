//! The program of the holder process: owns a pod's namespaces, its containers' output and exit
//! codes, and outlives the `xebec` that started it. Single-threaded; runs before anything else of
//! the binary is started.

mod connecting;
mod connection;
mod container;
mod exec;
mod launch;
mod life;
mod output;
pub(crate) mod pod_init;
mod poll;
mod requests;
mod serve;
mod startup;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The first argument that makes the binary a holder.
pub const ARGUMENT: &str = "holder";

/// `arguments` are those after [`ARGUMENT`]: the sandbox's directory, and the cluster's id, which
/// is for whoever looks at the machine's processes. The listening socket is standard input.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let [directory, _cluster] = arguments.as_slice() else { return ExitCode::FAILURE };
    match startup::detach() {
        Ok(startup::Role::Intermediate) => return ExitCode::SUCCESS,
        Ok(startup::Role::Holder) => {}
        Err(_) => return ExitCode::FAILURE,
    }
    let Ok(listener) = startup::take_listener() else { return ExitCode::FAILURE };
    match startup::set_up(PathBuf::from(directory)) {
        Ok(set_up) => match serve::Holder::new(set_up, listener).and_then(|mut it| it.run()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(err) => {
            startup::refuse(&listener, &err);
            ExitCode::FAILURE
        }
    }
}
