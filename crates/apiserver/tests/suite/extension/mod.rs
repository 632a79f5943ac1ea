//! The corpus of `cargo xtask diff extension`, held against what an upstream server answered to it
//! when it was last asked (`verdicts`): definitions like those of well-known operators, with right
//! and wrong objects, rules and policies.

#[path = "../../../../client/examples/extension/case.rs"]
mod case;
#[path = "../../../../client/examples/extension/normal.rs"]
#[expect(dead_code, reason = "shared with the comparison, which needs all of it")]
mod normal;
#[path = "../../../../client/examples/extension/published.rs"]
mod published;
#[path = "../../../../client/examples/extension/verdict.rs"]
mod verdict;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::wire::Connection;
use crate::subresources::connect;
use case::{Ask, Case, Step};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/examples/extension/cases");
const VERDICTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/extension/verdicts");
/// Conflicts of managers name whom the corpus was recorded with.
const USER_AGENT: (&str, &str) = ("user-agent", "differ/1");

async fn send(connection: &mut Connection, ask: &Ask) -> (u16, Value, Vec<String>) {
    let mut body = ask.body.clone();
    if ask.is_blind {
        let (_, there) = connection.call("GET", &ask.path, &Value::Null).await;
        body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
    }
    let headers = [("content-type", ask.content_type), ("accept", ask.accept), USER_AGENT];
    let (head, answer) = connection.send(ask.method, &ask.path, &headers, &body).await;
    let warnings = head.headers.get_all("warning").iter();
    let warnings = warnings.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned()).collect();
    (head.status.as_u16(), serde_json::from_slice(&answer).unwrap_or_default(), warnings)
}

/// What is answered otherwise than upstream did.
async fn play(case: &Case, expected: &[Value]) -> Vec<String> {
    let (_site, mut connection) = connect().await;
    let (mut expected, mut differences) = (expected.iter(), Vec::new());
    for step in &case.steps {
        match step {
            Step::Ask(ask) => {
                let (code, body, warnings) = send(&mut connection, ask).await;
                let seen = verdict::verdict(&ask.what, code, &body, &warnings);
                let wanted = expected.next().unwrap_or(&Value::Null);
                if wanted["differs"] != true && seen != *wanted {
                    differences.push(format!("upstream {wanted}\nours     {seen}"));
                }
            }
            Step::Until(path, wanted) => loop {
                let (_, seen) = connection.call("GET", path, &Value::Null).await;
                if case::shows(&seen, wanted) {
                    break;
                }
            },
            Step::UntilVerdict(ask, is_accepted) => {
                while (send(&mut connection, ask).await.0 < 300) != *is_accepted {}
            }
            Step::OpenApi(version) => {
                for seen in digests(&mut connection, version).await {
                    let wanted = expected.next().unwrap_or(&Value::Null);
                    if wanted["differs"] != true && seen != *wanted {
                        let why = "`cargo xtask diff extension` shows what is different";
                        differences.push(format!("{}: {why}", seen["what"]));
                    }
                }
            }
        }
    }
    differences.extend(expected.map(|it| format!("not asked: {it}")));
    differences
}

/// What is published of a group and version, part by part.
async fn digests(connection: &mut Connection, group_version: &str) -> Vec<Value> {
    let (group, version) = group_version.split_once('/').expect("GROUP/VERSION");
    let mut all = Vec::new();
    for (name, path) in
        [("v2", "/openapi/v2".to_owned()), ("v3", format!("/openapi/v3/apis/{group_version}"))]
    {
        let (code, document) = connection.get(&path, "application/json").await;
        assert_eq!(code, 200, "{path}");
        all.extend(published::parts(&document, group, version).map(|(what, part)| {
            verdict::digest(&format!("{what} in OpenAPI {name} of {group_version}"), &part)
        }));
    }
    all
}

async fn check(name: &str) {
    let read = |path: PathBuf| {
        std::fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
    };
    let case = Case::read(&Path::new(CASES).join(format!("{name}.yaml"))).expect("a case");
    let expected = read(Path::new(VERDICTS).join(format!("{name}.json")));
    let expected: Vec<Value> = serde_json::from_str(&expected).expect("verdicts");
    assert!(!expected.is_empty() && !case.steps.is_empty());
    let differences = play(&case, &expected).await;
    assert!(differences.is_empty(), "{}:\n{}", case.name, differences.join("\n"));
}

#[tokio::test]
async fn certificates_and_issuers_are_judged_as_upstream_does() {
    check("certificates").await;
}

#[tokio::test]
async fn gateways_are_judged_as_upstream_does() {
    check("gateways").await;
}

#[tokio::test]
async fn monitors_are_judged_as_upstream_does() {
    check("monitors").await;
}

#[tokio::test]
async fn rules_are_judged_as_upstream_does() {
    check("rules").await;
}

#[tokio::test]
async fn policies_are_judged_as_upstream_does() {
    check("policies").await;
}

#[tokio::test]
async fn what_is_published_is_what_upstream_publishes() {
    check("published").await;
}

#[tokio::test]
async fn definitions_are_judged_as_upstream_does() {
    check("definitions").await;
}

#[tokio::test]
async fn names_are_given_and_released_as_upstream_does() {
    check("names").await;
}
