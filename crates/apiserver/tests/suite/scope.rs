//! Every kind, every verb, with and without a namespace in the path, by somebody who may do
//! everything and by somebody who may do everything in one namespace. CVE-2019-11247 was one cell
//! of this matrix.

use std::sync::{Arc, Mutex};

use api::Dynamic;
use api::core::Namespace;
use api::rbac::RoleBinding;
use apimachinery::{ApiError, GroupVersionResource, Scope, User};
use client::{
    Client, DeleteOptions, Discovered, ListOptions, PatchKind, Payload, Request, Transport, Verb,
    WriteOptions,
};
use serde_json::json;
use stdx::World;

use crate::harness::{self, Harness};

const NO_SUCH: &str = "the server could not find the requested resource";
const NOT_ALLOWED: &str = "the server does not allow this method on the requested resource";
const VERBS: [Verb; 8] = [
    Verb::Get,
    Verb::List,
    Verb::Watch,
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
    Verb::DeleteCollection,
];

/// The way in of a client, for requests that it would never make.
fn transport(client: &Client) -> Arc<dyn Transport> {
    let taken = Arc::new(Mutex::new(None));
    let place = taken.clone();
    let _ = client.clone().map_transport(move |it| {
        *place.lock().expect("nobody panicked") = Some(it.clone());
        it
    });
    let transport = taken.lock().expect("nobody panicked").take();
    transport.expect("every client has a transport")
}

async fn define(harness: &Harness, plural: &str, kind: &str, scope: &str) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definitions =
        GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let object = Dynamic::from_value(definition).expect("an object");
    harness.client.dynamic(definitions).create(object).await.expect("the administrator may");
    let resource = GroupVersionResource::new("example.com", "v1", plural);
    for _ in 0..100 {
        if harness.client.dynamic(resource.clone()).list("", ListOptions::default()).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{plural} are not served");
}

/// A cluster with custom kinds of both scopes and the namespace `mine`, whose owner may do
/// everything there.
async fn cluster() -> (Harness, Client) {
    let harness = harness::start(World::simulated(1)).await;
    define(&harness, "wides", "Wide", "Cluster").await;
    define(&harness, "narrows", "Narrow", "Namespaced").await;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("mine".to_owned());
    harness.client.api::<Namespace>().create(namespace).await.expect("the administrator may");
    let binding = json!({
        "metadata": {"name": "owner", "namespace": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "owner"}],
    });
    let binding: RoleBinding = serde_json::from_value(binding).expect("a binding");
    harness.client.api::<RoleBinding>().create(binding).await.expect("the administrator may");
    let owner = harness.server.client(User::new("owner", &[]), "test");
    (harness, owner)
}

/// A dry run, so that the next one finds the same cluster.
fn request(of: &Discovered, verb: Verb, namespace: Option<&str>, name: Option<&str>) -> Request {
    Request {
        verb,
        resource: of.resource.clone(),
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        subresource: None,
        write: WriteOptions {
            field_manager: Some("test".to_owned()),
            dry_run: true,
            ..WriteOptions::default()
        },
        list: ListOptions::default(),
        payload: match verb {
            Verb::Create | Verb::Update => Payload::Object(Box::new(Dynamic {
                api_version: of.resource.group_version().to_string(),
                kind: of.kind.clone(),
                ..Dynamic::default()
            })),
            Verb::Patch => Payload::Patch(PatchKind::Merge, "{}".into()),
            Verb::Delete | Verb::DeleteCollection => Payload::Delete(DeleteOptions::default()),
            _ => Payload::Empty,
        },
    }
}

async fn ask(transport: &Arc<dyn Transport>, request: Request) -> Result<(), ApiError> {
    if request.verb == Verb::Watch {
        transport.watch(request).await.map(|_| ())
    } else {
        transport.call(request).await.map(|_| ())
    }
}

/// What a request that does not fit its kind is told: code and text.
fn refusal(of: &Discovered, verb: Verb, name: Option<&str>) -> (u16, &'static str) {
    let is_custom = of.resource.group == "example.com";
    let is_verb = of.verbs.iter().any(|it| it == verb.name());
    let is_read = of.verbs.iter().any(|it| it == "list");
    match of.scope {
        _ if !is_verb => (405, NOT_ALLOWED),
        Scope::Namespaced if name.is_none() && is_read && !is_custom => (405, NOT_ALLOWED),
        _ => (404, NO_SUCH),
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_that_a_kind_does_not_have_leads_nowhere() {
    let (harness, owner) = cluster().await;
    let (root, owner) = (transport(&harness.client), transport(&owner));
    let kinds = harness.client.discover().await.expect("the administrator may");
    assert!(kinds.iter().any(|it| it.kind == "Wide") && kinds.len() > 20);
    let mut n_cells = 0;
    for of in &kinds {
        for verb in VERBS {
            let is_of_all =
                matches!(verb, Verb::List | Verb::Watch | Verb::Create | Verb::DeleteCollection);
            let name = (!is_of_all).then_some("x");
            for namespace in [None, Some("mine")] {
                let cell = format!("{} {} {namespace:?}", verb.name(), of.kind);
                let fits = match of.scope {
                    Scope::Cluster => namespace.is_none(),
                    Scope::Namespaced => {
                        namespace.is_some() || matches!(verb, Verb::List | Verb::Watch)
                    }
                };
                let by_root = ask(&root, request(of, verb, namespace, name)).await;
                let by_owner = ask(&owner, request(of, verb, namespace, name)).await;
                n_cells += 1;
                if !fits {
                    let err = by_root.expect_err(&cell);
                    assert_eq!((err.code(), err.message()), refusal(of, verb, name), "{cell}");
                } else if let Err(err) = by_root {
                    assert_ne!(err.message(), NO_SUCH, "{cell}");
                }
                // Rights in a namespace are none outside it, and lead nowhere to what is in no
                // namespace.
                match (namespace, by_owner) {
                    // Everybody may ask about themselves.
                    (None, _) if of.kind.starts_with("SelfSubject") => {}
                    (None, outcome) => assert_eq!(outcome.expect_err(&cell).code(), 403, "{cell}"),
                    (Some(_), outcome) if of.scope == Scope::Cluster => {
                        let err = outcome.expect_err(&cell);
                        assert_eq!((err.code(), err.message()), refusal(of, verb, name), "{cell}");
                    }
                    (Some(_), Err(err)) => {
                        assert!(!err.message().contains("User \"owner\" cannot"), "{cell}: {err}");
                    }
                    (Some(_), Ok(())) => {}
                }
            }
        }
    }
    assert!(n_cells > 300, "{n_cells}");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_one_segment() {
    let (harness, owner) = cluster().await;
    let transport = transport(&owner);
    let kinds = harness.client.discover().await.expect("the administrator may");
    let secrets = kinds.iter().find(|it| it.kind == "Secret").expect("served");
    let check = async |namespace: &str, name: &str, code: u16, text: &str| {
        let err = ask(&transport, request(secrets, Verb::Get, Some(namespace), Some(name))).await;
        let err = err.expect_err(name);
        assert_eq!((err.code(), err.message()), (code, text), "{namespace} {name}");
    };
    check("mine", "a", 404, "secrets \"a\" not found").await;
    check(
        "mine",
        "../default/a",
        400,
        "Name parameter invalid: \"../default/a\": may not contain '/'",
    )
    .await;
    check("mine", "..", 400, "Name parameter invalid: \"..\": may not be '..'").await;
    check("mine", "%2e", 400, "Name parameter invalid: \"%2e\": may not contain '%'").await;
    let err = ask(&transport, request(secrets, Verb::List, Some("mine/../default"), None)).await;
    assert_eq!(err.expect_err("no namespace").code(), 403);
    let root = self::transport(&harness.client);
    let err = ask(&root, request(secrets, Verb::List, Some("mine/../default"), None)).await;
    assert_eq!(err.expect_err("no namespace").code(), 400);
    let err = ask(&root, request(secrets, Verb::Get, None, Some("default/a"))).await;
    assert_eq!(err.expect_err("no namespace").message(), NO_SUCH);
}

/// Whoever has rights in a namespace has them on the namespace itself, and on no other.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_within_itself() {
    let (harness, owner) = cluster().await;
    let kinds = harness.client.discover().await.expect("the administrator may");
    let namespaces = kinds.iter().find(|it| it.kind == "Namespace").expect("served");
    let transport = transport(&owner);
    let get = async |name: &str| {
        ask(&transport, request(namespaces, Verb::Get, None, Some(name)))
            .await
            .map_err(|it| it.code())
    };
    assert_eq!(get("mine").await, Ok(()));
    assert_eq!(get("default").await, Err(403));
    let list = ask(&transport, request(namespaces, Verb::List, None, None)).await;
    assert_eq!(list.map_err(|it| it.code()), Err(403));
}

/// A right to one name is no right to others by a selector that the verb does not heed.
#[tokio::test(start_paused = true)]
async fn a_field_selector_stands_in_for_a_name_where_it_selects() {
    let (harness, _) = cluster().await;
    let role = json!({
        "metadata": {"name": "one", "namespace": "mine"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]}],
    });
    let binding = json!({
        "metadata": {"name": "one", "namespace": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "one"}],
    });
    let role: api::rbac::Role = serde_json::from_value(role).expect("a role");
    let binding: RoleBinding = serde_json::from_value(binding).expect("a binding");
    harness.client.api::<api::rbac::Role>().create(role).await.expect("the administrator may");
    harness.client.api::<RoleBinding>().create(binding).await.expect("the administrator may");
    let transport = transport(&harness.server.client(User::new("one", &[]), "test"));
    let kinds = harness.client.discover().await.expect("the administrator may");
    let maps = kinds.iter().find(|it| it.kind == "ConfigMap").expect("served");
    let check = async |verb: Verb, name: Option<&str>, selector: &str, expected: u16| {
        let mut request = request(maps, verb, Some("mine"), name);
        request.list.field_selector = Some(selector.to_owned());
        let code = ask(&transport, request).await.map_or_else(|err| err.code(), |()| 200);
        assert_eq!(code, expected, "{} {name:?} {selector}", verb.name());
    };
    check(Verb::List, None, "metadata.name=a", 200).await;
    check(Verb::Watch, None, "metadata.name=a", 200).await;
    check(Verb::List, None, "metadata.name=b", 403).await;
    check(Verb::List, None, "metadata.name!=a", 403).await;
    check(Verb::List, None, "", 403).await;
    check(Verb::Get, Some("a"), "", 404).await;
    check(Verb::Create, None, "metadata.name=a", 403).await;
    for verb in [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete] {
        check(verb, Some("b"), "metadata.name=a", 403).await;
    }
    // Upstream gives deletions of many no name either.
    check(Verb::DeleteCollection, None, "metadata.name=a", 403).await;
}
