//! One case on both servers, step by step.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::allowed::Allowed;
use crate::case::{self, Ask, Case, Step};
use crate::compare::{Answer, Difference, Of, compare};
use crate::normal::comparable;
use crate::published::parts;
use crate::server::Server;
use crate::verdict::{digest, verdict};

/// How long something may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long two servers may say different things of a new definition.
const PATIENCE_OPEN_API: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Of an answer that is shown.
const SHOWN_MAX: usize = 2_000;

pub(crate) struct Pair {
    pub(crate) upstream: Server,
    pub(crate) ours: Server,
}

#[derive(Default)]
pub(crate) struct Played {
    pub(crate) n_alike: usize,
    pub(crate) n_known: usize,
    /// A text for each difference that is not known.
    pub(crate) lines: Vec<String>,
    /// What upstream answered.
    pub(crate) verdicts: Vec<Value>,
}

pub(crate) async fn play(pair: &mut Pair, case: &Case, allowed: &Allowed) -> Result<Played> {
    remove(pair, case).await?;
    let mut played = Played::default();
    let mut outcome = Ok(());
    for step in &case.steps {
        outcome = take(pair, case, step, allowed, &mut played).await;
        if outcome.is_err() {
            break;
        }
    }
    remove(pair, case).await?;
    if let Err(err) = outcome {
        played.lines.push(format!("  was not played to its end: {err}"));
    }
    Ok(played)
}

async fn take(
    pair: &mut Pair,
    case: &Case,
    step: &Step,
    allowed: &Allowed,
    played: &mut Played,
) -> Result<()> {
    match step {
        Step::Ask(ask) => {
            let upstream = send(&mut pair.upstream, ask).await?;
            let ours = send(&mut pair.ours, ask).await?;
            let mut kept = verdict(&ask.what, upstream.code, &upstream.body, &upstream.warnings);
            if !judge(case, &ask.what, [upstream, ours], allowed, played) {
                kept = json!({"what": ask.what, "code": kept["code"], "differs": true});
            }
            played.verdicts.push(kept);
        }
        Step::Until(path, wanted) => {
            for server in pair.both() {
                let is_shown =
                    async |it: &mut Server| Ok(case::shows(&it.get(path).await?.body, wanted));
                wait(&format!("{path} to show {wanted}"), server, is_shown).await?;
            }
        }
        Step::UntilVerdict(ask, is_accepted) => {
            for server in pair.both() {
                let is_so =
                    async |it: &mut Server| Ok((send(it, ask).await?.code < 300) == *is_accepted);
                wait(&ask.what, server, is_so).await?;
            }
        }
        Step::OpenApi(group_version) => {
            for (what, answers) in published(pair, group_version).await? {
                let mut kept = digest(&what, &answers[0].body);
                if !judge(case, &what, answers, allowed, played) {
                    kept = json!({"what": what, "differs": true});
                }
                played.verdicts.push(kept);
            }
        }
    }
    Ok(())
}

impl Pair {
    fn both(&mut self) -> [&mut Server; 2] {
        [&mut self.upstream, &mut self.ours]
    }
}

async fn send(server: &mut Server, ask: &Ask) -> Result<Answer> {
    let mut body = ask.body.clone();
    if ask.is_blind {
        let there = server.get(ask.path.split('?').next().unwrap_or_default()).await?;
        body["metadata"]["resourceVersion"] = there.body["metadata"]["resourceVersion"].clone();
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let Ask { method, path, content_type, accept, .. } = ask;
    server.call_accepting(accept, method, path, content_type, &body).await
}

async fn wait(
    what: &str,
    server: &mut Server,
    is_done: impl AsyncFn(&mut Server) -> Result<bool>,
) -> Result<()> {
    let begun = Instant::now();
    while !is_done(server).await? {
        if begun.elapsed() > PATIENCE {
            return Err(format!("waited in vain for {what}").into());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// What both say of a group in OpenAPI v2 and v3, upstream's first. It is published a while after
/// the definition: they are asked until they say the same.
async fn published(pair: &mut Pair, group_version: &str) -> Result<Vec<(String, [Answer; 2])>> {
    let (group, version) = group_version.split_once('/').ok_or("GROUP/VERSION is expected")?;
    let begun = Instant::now();
    loop {
        let mut all = Vec::new();
        for (name, path) in
            [("v2", "/openapi/v2".to_owned()), ("v3", format!("/openapi/v3/apis/{group_version}"))]
        {
            let [upstream, ours] = pair.both();
            let (upstream, ours) = (upstream.get(&path).await?, ours.get(&path).await?);
            let parts = |it: &Answer| parts(&it.body, group, version);
            for ((what, upstream), (_, ours)) in parts(&upstream).into_iter().zip(parts(&ours)) {
                let answer = |body: Value| Answer { code: 200, body, warnings: Vec::new() };
                let what = format!("{what} in OpenAPI {name} of {group_version}");
                all.push((what, [answer(upstream), answer(ours)]));
            }
        }
        let is_same = all.iter().all(|(_, [upstream, ours])| compare(upstream, ours).is_none());
        let is_there = all[0].1[0].body.as_object().is_some_and(|it| !it.is_empty());
        if is_same && is_there || begun.elapsed() > PATIENCE_OPEN_API {
            return Ok(all);
        }
        tokio::time::sleep(LOOK_EVERY * 5).await;
    }
}

/// Whether they are alike.
fn judge(
    case: &Case,
    what: &str,
    answers: [Answer; 2],
    allowed: &Allowed,
    played: &mut Played,
) -> bool {
    let [upstream, ours] = answers.map(|it| Answer { body: comparable(&it.body), ..it });
    let difference = compare(&upstream, &ours).filter(|it| !is_order(it, &upstream));
    let Some(difference) = difference.or_else(|| warnings(&upstream, &ours)) else {
        played.n_alike += 1;
        return true;
    };
    if allowed.reason(&case.name, what, &difference).is_some() {
        played.n_known += 1;
        return false;
    }
    let cut = |it: &str| it.chars().take(SHOWN_MAX).collect::<String>();
    played.lines.push(format!(
        "  {what}: {}\n    upstream  {}\n    ours      {}",
        difference.of.name(),
        cut(&difference.upstream),
        cut(&difference.ours)
    ));
    false
}

/// Of several causes that are the same, a message names one or the other first: Go's maps have no
/// order.
fn is_order(difference: &Difference, upstream: &Answer) -> bool {
    let causes = upstream.body["details"]["causes"].as_array();
    difference.of == Of::Message && causes.is_some_and(|it| it.len() > 1)
}

fn warnings(upstream: &Answer, ours: &Answer) -> Option<Difference> {
    let text = |it: &Answer| format!("warnings: {}", it.warnings.join("; "));
    let (upstream, ours) = (text(upstream), text(ours));
    (upstream != ours).then_some(Difference { of: Of::Message, upstream, ours })
}

/// What the case made, the last first, until it is gone.
async fn remove(pair: &mut Pair, case: &Case) -> Result<()> {
    for server in pair.both() {
        for path in case.made.iter().rev() {
            let is_gone = async |it: &mut Server| {
                let code = it.call("DELETE", path, "application/json", "").await?.code;
                Ok(code == 404)
            };
            wait(&format!("the end of {path}"), server, is_gone).await?;
        }
    }
    Ok(())
}
