//! What is asked beside what grows from examples: manifests of what rarely grows by chance
//! (`seeds.json`), and requests that act on an object (`acts.json`).

use serde_json::{Value, json};

use crate::requests::{Ask, Verb};

/// A manifest to start from, as its kind's example is.
#[derive(Clone)]
pub(crate) struct Seed {
    pub(crate) manifest: Value,
    /// What the object has for real, before it is written to.
    pub(crate) status: Option<Value>,
}

/// Those of the kind of the example, with its name.
pub(crate) fn of_kind(text: &str, example: &Value) -> Result<Vec<Seed>, serde_json::Error> {
    let all: Vec<Value> = serde_json::from_str(text)?;
    let is_same = |it: &Value| {
        let manifest = &it["manifest"];
        ["apiVersion", "kind"].iter().all(|field| manifest[field] == example[field])
    };
    let seed = |it: &Value| {
        let mut manifest = it["manifest"].clone();
        manifest["metadata"]["name"] = example["metadata"]["name"].clone();
        Seed { manifest, status: it.get("status").cloned() }
    };
    Ok(all.iter().filter(|it| is_same(it)).map(seed).collect())
}

/// What is asked of every object of a kind, in dry run.
#[derive(Clone)]
pub(crate) struct Act {
    method: &'static str,
    below: String,
    body: String,
}

impl Act {
    pub(crate) fn of_kind(text: &str, kind: &str) -> Result<Vec<Self>, serde_json::Error> {
        let all: Vec<Value> = serde_json::from_str(text)?;
        let is_asked = |it: &&Value| it.get("kind").is_none_or(|it| it == kind);
        let act = |it: &Value| {
            let (is_post, mut body) = (it["method"] == "POST", it["body"].clone());
            if !is_post {
                // Upstream does not look at the query of a deletion that has a body.
                body["dryRun"] = json!(["All"]);
            }
            Self {
                method: if is_post { "POST" } else { "DELETE" },
                below: it["below"].as_str().unwrap_or_default().to_owned(),
                body: body.to_string(),
            }
        };
        Ok(all.iter().filter(is_asked).map(act).collect())
    }

    pub(crate) fn ask(&self, collection: &str, name: &str) -> Ask {
        let body = self.body.replace("$NAME", name);
        Ask {
            verb: Verb::Act,
            is_status: false,
            method: self.method,
            content_type: "application/json",
            path: format!("{collection}/{name}{}?dryRun=All", self.below),
            bodies: [body.clone(), body],
            what: format!("{} {}", self.method, self.below),
        }
    }
}
