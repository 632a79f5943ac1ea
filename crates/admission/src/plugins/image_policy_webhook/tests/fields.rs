//! Every image that a pod spec can name is one that is asked about, or is known not to be. One that is
//! new is neither, and fails here until somebody has thought about it.

use std::collections::{BTreeMap, BTreeSet};

use api::core::Pod;
use apimachinery::schema::Type;
use serde_json::{Value, json};

use crate::plugins::fixture::{decode, pod};
use crate::plugins::image_policy_webhook::review::Spec;
use crate::plugins::pod_fields::{self, with};

/// When it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// When the pod is made or changed.
    WithThePod,
    /// When ephemeral containers are added.
    WithEphemeral,
    /// Never: it is no image, or upstream does not ask about it.
    Never,
}

const KNOWN: &[(&str, Asked)] = &[
    ("containers.[].image", Asked::WithThePod),
    ("containers.[].imagePullPolicy", Asked::Never),
    ("ephemeralContainers.[].image", Asked::WithEphemeral),
    ("ephemeralContainers.[].imagePullPolicy", Asked::Never),
    ("imagePullSecrets.[].name", Asked::Never),
    ("initContainers.[].image", Asked::WithThePod),
    ("initContainers.[].imagePullPolicy", Asked::Never),
    ("volumes.[].image.pullPolicy", Asked::Never),
    ("volumes.[].image.reference", Asked::Never),
    // A block device of Ceph.
    ("volumes.[].rbd.image", Asked::Never),
];

#[test]
fn no_image_is_new() {
    let found = pod_fields::all(|path, schema| {
        schema.kind == Type::String && path.to_lowercase().contains("image")
    });
    let known: BTreeSet<String> = KNOWN.iter().map(|it| it.0.to_owned()).collect();
    assert_eq!(found, known, "is somebody asked about these?");
}

#[test]
fn whoever_is_asked_hears_of_each_image() {
    let known: BTreeMap<&str, Asked> = KNOWN.iter().copied().collect();
    for (path, asked) in known {
        let pod: Pod = decode(&pod(&with(path, json!("registry.example.org/treasure"))));
        for (subresource, when) in
            [("", Asked::WithThePod), ("ephemeralcontainers", Asked::WithEphemeral)]
        {
            let question = Spec::new(&pod, subresource, "ns").question();
            let question: Value = serde_json::from_slice(&question).expect("a question");
            let images = question["spec"]["containers"].as_array().into_iter().flatten();
            let is_told =
                images.into_iter().any(|it| it["image"] == "registry.example.org/treasure");
            assert_eq!(is_told, asked == when, "{path} at {subresource:?}: {question}");
        }
    }
}
