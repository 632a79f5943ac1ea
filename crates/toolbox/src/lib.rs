//! Small tools for a first workload: what the image `xebec.local/toolbox` runs. Each is one file.
//!
//! A program of its own, in our binary: it prints, exits and blocks as programs do, and knows
//! nothing of the cluster.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "tools talk to their terminal")]

mod attempt;
mod count;
mod dns;
mod eat;
mod echo;
mod every_address;
mod extension_server;
mod files;
mod get;
mod http;
mod sleep;
mod stop;
mod tar;
mod webhook;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

/// The name that makes the binary a toolbox when it is called by it.
pub const PROGRAM: &str = "toolbox";

/// The tools that can also be called by their own name, as links in `/bin`.
pub const TOOLS: &[&str] = &[
    "cat", "count", "dns", "eat", "echo", "env", "false", "get", "http", "ls", "rm", "sleep",
    "tar", "touch", "true", "try", "webhook",
];

/// Small tools to try a cluster with
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Answer HTTP with this pod's name; /healthz fails while the file /tmp/unhealthy exists
    Http(http::Flags),
    /// Serve a part of the API, through the API server's aggregation
    ExtensionServer(extension_server::Flags),
    /// Send back what comes, over TCP or UDP
    Echo(echo::Flags),
    /// Look a name up, with the search path of resolv.conf
    Dns(dns::Flags),
    /// Fetch a URL and print what it answers
    Get(get::Flags),
    /// Print numbers
    Count(count::Flags),
    /// Take more than its share
    Eat(eat::Flags),
    /// Do what may be forbidden
    Try(attempt::Flags),
    /// Wait for some seconds, or for good
    Sleep(sleep::Flags),
    /// Print files
    Cat(files::Paths),
    /// List a directory
    Ls(files::Paths),
    /// Create files
    Touch(files::Paths),
    /// Remove files
    Rm(files::Paths),
    /// Print the environment
    Env,
    /// Pack and unpack archives, as far as `kubectl cp` needs it
    Tar(tar::Flags),
    /// Answer the questions of API servers about what is written, over HTTPS
    Webhook(webhook::Flags),
    /// Succeed
    True,
    /// Fail
    False,
}

/// `arguments` with the name the program was called by.
pub fn run(mut arguments: Vec<OsString>) -> ExitCode {
    let called = arguments.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    if called != PROGRAM {
        // Called by a tool's name: `/bin/sleep 5` is `toolbox sleep 5`.
        arguments.insert(1.min(arguments.len()), called.to_owned());
    }
    let parsed = match Arguments::try_parse_from(arguments) {
        Ok(parsed) => parsed,
        Err(err) => {
            // A terminal that is gone changes nothing.
            let _ = err.print();
            return ExitCode::from(if err.use_stderr() { 2 } else { 0 });
        }
    };
    match start(parsed.tool) {
        Ok(code) => code,
        Err(err) => {
            eprintln!("{err:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(tool: Tool) -> Result<ExitCode> {
    match tool {
        Tool::Http(flags) => block_on(http::run(flags))?,
        Tool::ExtensionServer(flags) => block_on(extension_server::run(flags))?,
        Tool::Echo(flags) => block_on(echo::run(flags))?,
        Tool::Dns(flags) => dns::run(&flags)?,
        Tool::Get(flags) => return block_on(get::run(flags)),
        Tool::Count(flags) => block_on(count::run(flags))?,
        Tool::Eat(flags) => block_on(eat::run(flags))?,
        Tool::Try(flags) => return attempt::run(&flags),
        Tool::Sleep(flags) => block_on(sleep::run(flags))?,
        Tool::Cat(paths) => files::cat(&paths)?,
        Tool::Ls(paths) => files::ls(&paths)?,
        Tool::Touch(paths) => files::touch(&paths)?,
        Tool::Rm(paths) => files::rm(&paths)?,
        Tool::Env => files::environment()?,
        Tool::Tar(flags) => tar::run(&flags)?,
        Tool::Webhook(flags) => block_on(webhook::run(flags))?,
        Tool::True => {}
        Tool::False => return Ok(ExitCode::FAILURE),
    }
    Ok(ExitCode::SUCCESS)
}

/// One thread is plenty, and keeps a tool small.
fn block_on<T>(tool: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(tool)
}
