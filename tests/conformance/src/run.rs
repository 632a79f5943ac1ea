//! Runs cases, a few at a time, each in its scope; says how each ended, and looks at the end whether
//! anything stayed behind.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use futures_util::{FutureExt as _, StreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::{Instant, timeout};

use crate::cases::Case;
use crate::kubectl::{self, Kubectl};
use crate::scope::{Scope, Skipped};

/// What is to be run, and against whom.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub kubeconfig: PathBuf,
    /// Of the kubeconfig; its current one if none is named.
    pub context: Option<String>,
    /// How many run at once; 0 means 4.
    pub parallel: usize,
}

/// How a case ended.
enum Outcome {
    Passed,
    Failed(anyhow::Error),
    Skipped(String),
}

/// All that was run, in the order in which it ended.
#[derive(Debug, Default)]
pub struct Report {
    pub passed: usize,
    /// Each with why.
    pub failed: Vec<String>,
    pub skipped: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, skipped) = (self.failed.len(), self.skipped.len());
        write!(f, "{} passed, {failed} failed, {skipped} skipped", self.passed)
    }
}

/// How long what is deleted may take to go.
const LEAVING: Duration = Duration::from_secs(180);

/// Runs the cases and tells each line; a failure of the run itself is an error.
///
/// # Errors
/// The kubeconfig cannot be used.
pub async fn run(
    options: &Options,
    cases: &[&'static Case],
    mut tell: impl FnMut(&str),
) -> Result<Report> {
    let client = connect(options).await?;
    let program = kubectl::program();
    let kubectl = Kubectl::find(&program, &options.kubeconfig, options.context.clone()).await;
    if kubectl.is_none() {
        let program = program.display();
        tell(&format!("WARNING: {program} cannot be run: the cases that need kubectl are SKIPPED"));
    }
    let parallel = if options.parallel == 0 { 4 } else { options.parallel };
    let mut ends = futures_util::stream::iter(cases)
        .map(|case| run_one(&client, kubectl.as_ref(), case))
        .buffer_unordered(parallel);
    let (mut report, mut made) = (Report::default(), Vec::new());
    while let Some(end) = ends.next().await {
        tell(&line(&end));
        made.extend(end.made);
        match end.outcome {
            Outcome::Passed => report.passed += 1,
            Outcome::Failed(err) => report.failed.push(format!("{}: {err:#}", end.case.codename)),
            Outcome::Skipped(_) => report.skipped.push(end.case.codename.to_owned()),
        }
    }
    drop(ends);
    if let Err(err) = nothing_stays(&client, &made).await {
        tell(&format!("FAILED  cleaning up\n        {err:#}"));
        report.failed.push(format!("cleaning up: {err:#}"));
    }
    Ok(report)
}

struct End {
    case: &'static Case,
    outcome: Outcome,
    took: Duration,
    /// Paths that name nothing when all is over.
    made: Vec<String>,
}

fn line(end: &End) -> String {
    let (name, seconds) = (end.case.codename, end.took.as_secs_f64());
    match &end.outcome {
        Outcome::Passed => format!("ok      {name} ({seconds:.1} s)"),
        Outcome::Failed(err) => format!("FAILED  {name} ({seconds:.1} s)\n        {err:#}"),
        Outcome::Skipped(why) => format!("SKIPPED {name}: {why}"),
    }
}

async fn connect(options: &Options) -> Result<kube::Client> {
    let path = &options.kubeconfig;
    let kubeconfig = Kubeconfig::read_from(path)
        .with_context(|| format!("reading the kubeconfig {}", path.display()))?;
    let chosen = KubeConfigOptions { context: options.context.clone(), ..Default::default() };
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &chosen).await?;
    // A case sees every answer: 429 is one that some expect.
    config.default_retry = false;
    let client = kube::Client::try_from(config)?;
    client.apiserver_version().await.context("the cluster does not answer")?;
    Ok(client)
}

async fn run_one(client: &kube::Client, kubectl: Option<&Kubectl>, case: &'static Case) -> End {
    let start = Instant::now();
    let (outcome, made) = match Scope::new(client.clone(), kubectl.cloned()) {
        Err(err) => (Outcome::Failed(err), Vec::new()),
        Ok(scope) => run_in(&scope, case).await,
    };
    End { case, outcome, took: start.elapsed(), made }
}

async fn run_in(scope: &Scope, case: &Case) -> (Outcome, Vec<String>) {
    let work = async {
        scope.enter().await?;
        (case.run)(scope).await
    };
    let work = AssertUnwindSafe(timeout(case.limit, work)).catch_unwind();
    let end = match work.await {
        Err(_) => Err(anyhow!("the case panicked")),
        Ok(Err(_)) => {
            Err(anyhow!("not done after {:?}, still at: {}", case.limit, scope.last_doing()))
        }
        Ok(Ok(end)) => end,
    };
    let left = timeout(LEAVING, scope.leave()).await.unwrap_or_else(|_| Err(anyhow!("too long")));
    let (left, made) = match left {
        Ok(made) => (Ok(()), made),
        Err(err) => (Err(err), Vec::new()),
    };
    let outcome = match end.and(left) {
        Ok(()) => Outcome::Passed,
        Err(err) => match err.downcast::<Skipped>() {
            Ok(Skipped(why)) => Outcome::Skipped(why),
            Err(err) => Outcome::Failed(err),
        },
    };
    (outcome, made)
}

async fn nothing_stays(client: &kube::Client, made: &[String]) -> Result<()> {
    let scope = Scope::new(client.clone(), None)?;
    let gone = async {
        for path in made {
            scope.gone(path).await?;
        }
        Ok(())
    };
    let ended = timeout(LEAVING, gone).await;
    ended.map_err(|_| anyhow!("after {LEAVING:?}: {}", scope.last_doing()))?
}
