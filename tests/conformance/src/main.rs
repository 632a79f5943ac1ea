//! `conformance --kubeconfig FILE`: runs the cases against a cluster and says how each ended.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use conformance::{Case, Options, all, run};

/// Runs the conformance cases against a cluster.
#[derive(Parser)]
struct Arguments {
    /// The cluster, as an administrator.
    #[arg(long, required_unless_present = "list")]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig instead of its current one.
    #[arg(long)]
    context: Option<String>,
    /// Only cases whose names have this text.
    #[arg(long, default_value = "")]
    filter: String,
    /// Names the cases and runs none.
    #[arg(long)]
    list: bool,
    /// How many cases run at once.
    #[arg(long, default_value_t = 4)]
    parallel: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match start(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            say(&format!("error: {err:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well.
async fn start(arguments: Arguments) -> Result<bool> {
    let Arguments { kubeconfig, context, filter, list, parallel } = arguments;
    let cases: Vec<&'static Case> = all(&filter);
    if list {
        cases.iter().for_each(|it| say(it.codename));
        return Ok(true);
    }
    let kubeconfig = kubeconfig.unwrap_or_default();
    let options = Options { kubeconfig, context, parallel };
    let report = run(&options, &cases, say).await?;
    say(&report.to_string());
    Ok(report.failed.is_empty())
}

#[expect(clippy::print_stdout, reason = "a command line tool speaks on standard output")]
fn say(text: &str) {
    println!("{text}");
}
