//! The binary `xebec`: configuration, wiring, signals. The only crate that sees sibling components.

mod api_server;
mod commands;
mod component;
mod component_server;
mod control_plane;
mod data_dir;
mod datastore;
mod detach;
mod kubeconfig_file;
mod node;
mod pki_files;
mod progress;
mod serve;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

/// Gives memory back after bursts; glibc's allocator keeps most of it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Wrong usage, as sysexits(3) has it.
const EXIT_USAGE: u8 = 64;

/// As containers have it, too.
const UMASK: rustix::fs::Mode = rustix::fs::Mode::from_raw_mode(0o022);

/// A whole Kubernetes in one binary.
#[derive(Parser)]
#[command(name = "xebec", version = concat!(env!("CARGO_PKG_VERSION"), " (Kubernetes ", "v1.36", ")"))]
enum Command {
    /// Run a cluster on this machine
    Up(commands::up::Flags),
    /// Stop a cluster that runs detached
    Down(commands::down::Flags),
    /// Load, list, remove and pull images of the node
    Image(commands::image::Flags),
    /// Snapshot, restore, check and serve the store
    Store(commands::store::Flags),
    /// Run the API server alone
    Apiserver(commands::apiserver::Flags),
    /// Run the controllers alone, against any API server
    ControllerManager(commands::controller_manager::Flags),
    /// Run the scheduler alone, against any API server
    Scheduler(commands::scheduler::Flags),
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|it| it == containers::holder::ARGUMENT) {
        return containers::holder::run(arguments.into_iter().skip(2).collect());
    }
    let called = arguments.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    if called == toolbox::PROGRAM || toolbox::TOOLS.iter().any(|it| called == *it) {
        return toolbox::run(arguments);
    }
    // Whatever it was where we were started: files that nobody gave a mode are not for others to write.
    rustix::process::umask(UMASK);
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(err) => {
            let _ = err.print();
            return ExitCode::from(if err.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    let outcome = match command {
        Command::Up(flags) => commands::up::run(flags),
        Command::Down(flags) => commands::down::run(&flags),
        Command::Image(flags) => commands::image::run(flags),
        Command::Store(flags) => commands::store::run(flags),
        Command::Apiserver(flags) => commands::apiserver::run(flags),
        Command::ControllerManager(flags) => commands::controller_manager::run(flags),
        Command::Scheduler(flags) => commands::scheduler::run(flags),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            progress::say_error(&format!("error: {err:#}"));
            ExitCode::FAILURE
        }
    }
}
