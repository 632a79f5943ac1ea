//! A definition that the `kube` crate derives from a Rust type, with rules in CEL: it is taken as it
//! is, and its rules hold for whoever writes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{CustomResource, CustomResourceExt as _, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cluster::Cluster;
use crate::kube_crate::connect;

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(
    group = "derived.example.com",
    version = "v1",
    kind = "Shelf",
    plural = "shelves",
    namespaced,
    status = "ShelfStatus",
    shortname = "shf",
    selectable = ".spec.room",
    scale(spec_replicas_path = ".spec.boards", status_replicas_path = ".status.boards"),
    printcolumn(name = "Room", type_ = "string", json_path = ".spec.room"),
    validation = Rule::new("size(self.metadata.name) <= 20").message("the name is for a label of 20 letters")
)]
#[x_kube(validation = Rule::new("self.boards >= self.books / 50").message(Message::Expression("'the books in the ' + self.room + ' need more boards'".to_owned())).field_path(".boards"))]
#[serde(rename_all = "camelCase")]
struct ShelfSpec {
    /// Where it stands.
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a shelf stays where it is").reason(Reason::FieldValueForbidden))]
    room: String,
    boards: i64,
    #[serde(default)]
    #[x_kube(validation = "self >= 0")]
    books: i64,
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    #[serde(default)]
    labels: Vec<Label>,
}

#[derive(Serialize, Deserialize, Clone, Debug, schemars::JsonSchema)]
struct Label {
    name: String,
    text: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, schemars::JsonSchema)]
struct ShelfStatus {
    boards: i64,
}

fn spec(room: &str, boards: i64, books: i64) -> ShelfSpec {
    ShelfSpec { room: room.to_owned(), boards, books, labels: Vec::new() }
}

/// What the server says about a write that it refuses.
fn refusal<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) -> (u16, String) {
    match outcome {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("a refusal was due: {other:?}"),
    }
}

async fn established(cluster: &Cluster, client: &kube::Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Shelf::crd()).await.unwrap();
    cluster.until_established("shelves.derived.example.com");
}

#[tokio::test]
async fn a_derived_definition_holds_its_rules() {
    let Some(cluster) = Cluster::start(0) else { return };
    let client = connect(&cluster).await;
    established(&cluster, &client).await;
    let shelves: Api<Shelf> = Api::default_namespaced(client.clone());
    let post = PostParams::default();
    shelves.create(&post, &Shelf::new("fiction", spec("hall", 4, 200))).await.unwrap();

    let check = |seen: (u16, String), text: &str| {
        assert_eq!(seen.0, 422, "{}", seen.1);
        assert!(seen.1.contains(text), "{text}\n{}", seen.1);
    };
    let create =
        async |name: &str, spec| refusal(shelves.create(&post, &Shelf::new(name, spec)).await);
    check(create("few", spec("hall", 1, 200)).await, "spec.boards: Invalid value: ");
    check(create("few", spec("hall", 1, 200)).await, "the books in the hall need more boards");
    check(
        create("negative", spec("hall", 1, -1)).await,
        "spec.books: Invalid value: -1: failed rule: self >= 0",
    );
    let long = "a".repeat(21);
    check(create(&long, spec("hall", 1, 0)).await, "the name is for a label of 20 letters");

    // Rules about changes hold for every kind of write.
    let moved = json!({ "spec": { "room": "attic" } });
    let patched = shelves.patch("fiction", &PatchParams::default(), &Patch::Merge(&moved)).await;
    check(refusal(patched), "spec.room: Forbidden: a shelf stays where it is");
    let mut replaced = shelves.get("fiction").await.unwrap();
    replaced.spec.room = "attic".to_owned();
    check(refusal(shelves.replace("fiction", &post, &replaced).await), "a shelf stays where it is");
    let apply = |room: &str, labels: serde_json::Value| {
        Patch::Apply(json!({
            "apiVersion": "derived.example.com/v1", "kind": "Shelf",
            "spec": { "room": room, "boards": 4, "labels": labels },
        }))
    };
    let manager = |name: &str| PatchParams::apply(name).force();
    let one = apply("attic", json!([]));
    check(
        refusal(shelves.patch("fiction", &manager("one"), &one).await),
        "a shelf stays where it is",
    );

    // Two who apply have their own items of a list with keys.
    let (one, two) = (json!([{ "name": "a", "text": "1" }]), json!([{ "name": "b" }]));
    shelves.patch("fiction", &manager("one"), &apply("hall", one)).await.unwrap();
    let both = shelves.patch("fiction", &manager("two"), &apply("hall", two)).await.unwrap();
    let names: Vec<&str> = both.spec.labels.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let less = shelves.patch("fiction", &manager("one"), &apply("hall", json!([]))).await.unwrap();
    assert_eq!(less.spec.labels.len(), 1);
    assert_eq!(less.spec.books, 200, "what nobody applied stays");

    // Through the scale the rules hold too, and the field can be selected.
    let scale = json!({ "spec": { "replicas": 1 } });
    let scaled =
        shelves.patch_scale("fiction", &PatchParams::default(), &Patch::Merge(&scale)).await;
    check(refusal(scaled), "the books in the hall need more boards");
    let hall = kube::api::ListParams::default().fields("spec.room=hall");
    assert_eq!(shelves.list(&hall).await.unwrap().items.len(), 1);
    let attic = kube::api::ListParams::default().fields("spec.room=attic");
    assert_eq!(shelves.list(&attic).await.unwrap().items.len(), 0);
}
