//! Hooks on the fake node, and on loopback.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};
use node_api::fake::Exec;
use serde_json::{Value, json};

use super::{grace_left, run};
use crate::probes::tests::{running, serve};

async fn result(hook: Value, exec: Exec) -> String {
    let (node, id) = running("app").await;
    node.on_exec("app", move |_| exec.clone());
    let hook: LifecycleHandler = serde_json::from_value(hook).unwrap();
    let container = Container { name: "app".to_owned(), ..Container::default() };
    let address = Some("127.0.0.1".parse().unwrap());
    match run(&node, &container, &id, &hook, address).await {
        Ok(()) => "ok".to_owned(),
        Err(err) => stdx::error_chain(&err),
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_run_to_their_end() {
    let command = json!({"exec": {"command": ["say", "hello"]}});
    assert_eq!(result(command.clone(), Exec::exits(0)).await, "ok");
    assert_eq!(
        result(command.clone(), Exec::exits(3).stdout("no")).await,
        "command \"say hello\" exited with 3: no"
    );
    let start = tokio::time::Instant::now();
    let slow = Exec::exits(0).takes(Duration::from_secs(50));
    assert_eq!(result(command, slow).await, "ok");
    assert_eq!(start.elapsed(), Duration::from_secs(50));
    assert_eq!(result(json!({"sleep": {"seconds": 7}}), Exec::exits(0)).await, "ok");
    assert_eq!(start.elapsed(), Duration::from_secs(57));
    assert_eq!(result(json!({"tcpSocket": {"port": 1}}), Exec::exits(0)).await, "ok");
    assert_eq!(
        result(json!({}), Exec::exits(0)).await,
        "invalid handler: neither exec, httpGet, sleep nor tcpSocket"
    );
}

#[tokio::test]
async fn any_answer_to_a_hook_will_do() {
    let server = serve(|_| "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned()).await;
    let hook = json!({"httpGet": {"port": server.port, "path": "/stop"}});
    assert_eq!(result(hook, Exec::exits(0)).await, "ok");
    let request = server.requests.lock().unwrap().concat().to_lowercase();
    assert!(request.contains("user-agent: kube-lifecycle/1.36"), "{request}");
}

#[test]
fn a_hook_takes_its_time_from_the_grace() {
    let check = |grace, took, expected| {
        let [grace, took, expected] = [grace, took, expected].map(Duration::from_secs);
        assert_eq!(grace_left(grace, took), expected);
    };
    check(30, 0, 30);
    check(30, 10, 20);
    check(30, 29, 2);
    check(30, 90, 2);
    check(0, 0, 2);
}
