//! The binary `xebec`: configuration, wiring, signals. The only crate that sees sibling components.

mod admission_plugins;
mod api_server;
mod cluster;
mod commands;
mod component;
mod component_config;
mod component_server;
mod control_plane;
mod data_dir;
mod datastore;
mod detach;
mod front_proxy;
mod joining;
mod kubeconfig_file;
mod node;
mod pki_files;
mod plain_server;
mod progress;
mod serve;
mod server_names;
mod signing;
mod token_keys;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

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
    Up(Box<commands::up::Flags>),
    /// Stop a cluster, or remove it with everything it made
    Down(commands::down::Flags),
    /// Remove what others left on this machine
    Clean(commands::clean::Flags),
    /// List the clusters of this machine
    List(commands::list::Flags),
    /// Show how a cluster is
    Status(commands::status::Flags),
    /// Print the kubeconfig of a cluster
    Kubeconfig(commands::kubeconfig::Flags),
    /// Write what a node needs to join a cluster: kubeconfigs and a certificate
    Enroll(commands::enroll::Flags),
    /// Make this machine a node of a cluster elsewhere
    Join(Box<commands::join::Flags>),
    /// Make this machine a node no more: evict its pods, delete its Node, remove everything here
    Leave(commands::leave::Flags),
    /// Make, list and delete the tokens with which machines join
    Token(commands::token::Flags),
    /// Show what admission would do about the objects of a file, step by step
    Admit(commands::admit::Flags),
    /// Try a policy, a rule or a Pod Security level on what is there, before it is enforced
    Policy(commands::policy::Flags),
    /// Say what network policies let pass, and why
    Netpol(commands::netpol::Flags),
    /// Load, list, remove and pull images of the node
    Image(commands::image::Flags),
    /// Snapshot, restore, check and serve the store
    Store(commands::store::Flags),
    /// Run the API server alone
    Apiserver(Box<commands::apiserver::Flags>),
    /// Run the controllers alone, against any API server
    ControllerManager(Box<commands::controller_manager::Flags>),
    /// Run the scheduler alone, against any API server
    Scheduler(commands::scheduler::Flags),
    /// Run the kubelet alone, against any API server
    Kubelet(Box<commands::kubelet::Flags>),
    /// Run the service proxy alone, against any API server
    Proxy(Box<commands::proxy::Flags>),
    /// Print the completion for a shell, such as `xebec completion bash`
    Completion(commands::completion::Flags),
    /// Show the version
    Version(commands::version::Flags),
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|it| it == containers::holder::ARGUMENT) {
        return containers::holder::run(arguments.into_iter().skip(2).collect());
    }
    if arguments.get(1).is_some_and(|it| it == packets::ARGUMENT) {
        return packets::run();
    }
    if arguments.get(1).is_some_and(|it| it == containers::setup::ARGUMENT) {
        containers::setup::run(&arguments[2..]);
    }
    let called = arguments.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    if called == toolbox::PROGRAM || toolbox::TOOLS.iter().any(|it| called == *it) {
        return toolbox::run(arguments);
    }
    // Whatever it was where we were started: files that nobody gave a mode are not for others to
    // write.
    rustix::process::umask(UMASK);
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(err) => {
            let _ = err.print();
            return ExitCode::from(if err.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    let outcome = match command {
        Command::Up(flags) => commands::up::run(*flags),
        Command::Down(flags) => commands::down::run(&flags),
        Command::Clean(flags) => commands::clean::run(&flags),
        Command::List(flags) => commands::list::run(&flags),
        Command::Status(flags) => commands::status::run(&flags),
        Command::Kubeconfig(flags) => commands::kubeconfig::run(&flags),
        Command::Enroll(flags) => commands::enroll::run(&flags),
        Command::Join(flags) => commands::join::run(*flags),
        Command::Leave(flags) => commands::leave::run(&flags),
        Command::Token(flags) => commands::token::run(&flags),
        Command::Admit(flags) => commands::admit::run(&flags),
        Command::Policy(flags) => commands::policy::run(flags),
        Command::Netpol(flags) => commands::netpol::run(&flags),
        Command::Image(flags) => commands::image::run(flags),
        Command::Store(flags) => commands::store::run(flags),
        Command::Apiserver(flags) => commands::apiserver::run(*flags),
        Command::ControllerManager(flags) => commands::controller_manager::run(*flags),
        Command::Scheduler(flags) => commands::scheduler::run(flags),
        Command::Kubelet(flags) => commands::kubelet::run(*flags),
        Command::Proxy(flags) => commands::proxy::run(*flags),
        Command::Completion(flags) => commands::completion::run(&flags, Command::command()),
        Command::Version(flags) => commands::version::run(&flags),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            progress::say_error(&format!("error: {err:#}"));
            ExitCode::FAILURE
        }
    }
}

/// What the flags of a command are in this process, for its pages.
fn flag_values(command: &str) -> component_server::FlagValues {
    let root = Command::command();
    let matches = root.clone().try_get_matches();
    match (root.find_subcommand(command), matches.as_ref().map(|it| it.subcommand_matches(command)))
    {
        (Some(command), Ok(Some(matches))) => component_server::FlagValues::read(command, matches),
        _ => component_server::FlagValues::default(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    /// Every command, flag, argument and value says what it is, except those that are hidden and
    /// clap's own.
    #[test]
    fn the_help_has_no_gaps() {
        fn check(command: &clap::Command, path: &str, gaps: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            if command.get_about().is_none() {
                gaps.push(path.clone());
            }
            let shown = command.get_arguments().filter(|it| !it.is_hide_set());
            for argument in shown {
                if argument.get_help().is_none() {
                    gaps.push(format!("{path} {}", argument.get_id()));
                }
                let values = argument.get_possible_values();
                let is_enum = argument.get_action().takes_values()
                    && values.iter().any(|it| it.get_name() != "true" && it.get_name() != "false");
                let unsaid = values.iter().filter(|it| is_enum && it.get_help().is_none());
                gaps.extend(
                    unsaid.map(|it| format!("{path} {}={}", argument.get_id(), it.get_name())),
                );
            }
            command.get_subcommands().for_each(|it| check(it, &path, gaps));
        }
        let mut command = super::Command::command();
        command.build();
        let mut gaps = Vec::new();
        check(&command, "", &mut gaps);
        assert!(gaps.is_empty(), "without help: {gaps:#?}");
    }
}
