//! What is wrong on the server's side: the client is told what it can do something about, and where
//! the log says the rest.

use std::sync::Arc;

use admission::{Attributes, Context, Phase, Plugin, Validating};
use api::core::ConfigMap;
use kvstore::Error;
use kvstore::memory::Memory;
use serde_json::{Value, json};
use stdx::World;

use crate::harness::remote::Remote;
use crate::harness::wire::{ADMIN, Connection, Site};
use crate::harness::{self, logs};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATH: &str = "/var/lib/xebec/store/log-7";

struct Panics;

impl Plugin for Panics {
    fn name(&self) -> &'static str {
        "Panics"
    }

    fn handles(&self, phase: Phase, _: &Attributes<'_>) -> bool {
        phase == Phase::Validate
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        assert!(context.name() != "panic", "it cannot be opened: {PATH}");
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// The line of the log that belongs to the request, which must be one. Other tests write to the same
/// log, under ids that are drawn: this one must be none that could be in one of them.
fn logged(id: &str) -> String {
    let text = logs().text();
    let lines: Vec<&str> =
        text.lines().filter(|it| it.contains(id) && it.contains("a request failed")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0].to_owned()
}

async fn create(connection: &mut Connection, name: &str, id: &str) -> (u16, Option<String>, Value) {
    let headers = [("content-type", "application/json"), ("audit-id", id)];
    let object = json!({"metadata": {"name": name}});
    let (head, body) = connection.send("POST", MAPS, &headers, &object).await;
    let header = head.headers.get("audit-id").and_then(|it| it.to_str().ok()).map(str::to_owned);
    (head.status.as_u16(), header, serde_json::from_slice(&body).expect("a Status"))
}

#[tokio::test]
async fn what_went_wrong_is_in_the_log_under_the_id_that_the_client_gets() {
    logs();
    let remote = Remote::new(Arc::new(Memory::new()));
    let site = Site::start_with(remote.clone(), vec![Arc::new(Panics)]).await;
    let mut connection = site.connect(ADMIN).await;
    let broken = || Error::Io {
        doing: "writing the log",
        source: Arc::new(std::io::Error::other(format!("{PATH}: input/output error"))),
    };
    let closed = || Error::Unavailable { why: format!("{PATH} is locked") };
    for (id, error, code, reason, message) in [
        (
            "request-of-faults-1",
            broken(),
            500,
            "InternalError",
            "Internal error occurred: the store failed",
        ),
        ("request-of-faults-2", closed(), 503, "ServiceUnavailable", "the store cannot be reached"),
    ] {
        remote.refuse(Some(error));
        let (answered, header, status) = create(&mut connection, "a", id).await;
        assert_eq!((answered, header.as_deref()), (code, Some(id)), "{status}");
        assert_eq!(status["reason"], reason);
        assert_eq!(status["message"], format!("{message} (audit ID {id})"));
        let causes = status["details"]["causes"].as_array().expect("causes");
        assert_eq!(causes.last(), Some(&json!({"reason": "AuditID", "message": id})));
        assert!(!status.to_string().contains("/var/lib"), "{status}");
        assert!(logged(id).contains(PATH), "{}", logged(id));
    }
    assert!(logged("request-of-faults-1").contains("writing the log: /var/lib"), "the whole chain");
    remote.refuse(None);
    let (code, _, status) = create(&mut connection, "panic", "request-of-faults-3").await;
    let message = "Internal error occurred: This request caused apiserver to panic. Look in the logs for details. \
                   (audit ID request-of-faults-3)";
    assert_eq!((code, status["message"].as_str()), (500, Some(message)));
    assert!(logged("request-of-faults-3").contains(PATH), "{}", logged("request-of-faults-3"));
    // Who is wrong himself is told everything, and nothing is logged.
    let (code, _, status) = create(&mut connection, "Not A Name", "request-of-faults-4").await;
    assert_eq!(code, 422);
    assert!(!status["message"].as_str().unwrap_or_default().contains("audit ID"), "{status}");
    assert!(
        !logs()
            .text()
            .lines()
            .any(|it| it.contains("request-of-faults-4") && it.contains("failed"))
    );
    // The connection goes on.
    assert_eq!(create(&mut connection, "a", "request-of-faults-5").await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn callers_in_process_get_the_cause_but_not_in_the_text() {
    let remote = Remote::new(Arc::new(Memory::new()));
    let server = harness::start_over(World::simulated(1), remote.clone()).await;
    let why = format!("{PATH}: No space left on device (os error 28)");
    remote.refuse(Some(Error::ReadOnly { why }));
    let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        name: Some("a".to_owned()),
        namespace: Some("default".to_owned()),
        ..Default::default()
    };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    let error = server.client.api::<ConfigMap>().create(map).await.expect_err("refused");
    // But for what somebody can act on.
    assert_eq!(error.to_string(), "the store is read-only: No space left on device");
    assert!(stdx::error_chain(&error).to_string().contains(PATH));
    let status = serde_json::to_string(&error.to_status()).expect("a Status");
    assert!(!status.contains(PATH), "{status}");
}
